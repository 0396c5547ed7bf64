"""``seamark groups`` and ``seamark lag``."""
