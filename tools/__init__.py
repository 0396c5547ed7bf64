"""Scripts that keep the repository honest."""
