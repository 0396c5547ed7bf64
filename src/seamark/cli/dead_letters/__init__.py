"""``seamark dead-letters``."""
