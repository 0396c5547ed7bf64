"""Writing rows to topics."""
