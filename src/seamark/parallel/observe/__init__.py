"""Status, metrics, health and progress of a running parallel consumer."""
