"""``seamark consume`` and ``seamark produce``."""
