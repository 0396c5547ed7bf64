"""``seamark audit``."""
