"""Seamark: how far has this Kafka consumer group safely got?

Importing this package costs next to nothing: every part is loaded when it is first used.
"""

from seamark._version import __version__

__all__ = ["__version__"]
