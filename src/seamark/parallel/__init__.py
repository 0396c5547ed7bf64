"""The parallel consumer: records run concurrently, and the committed offset never passes unfinished work.

The cores are pure: they are given time and chance, hold no lock, and start no thread. ``engine`` puts them together.
"""

from seamark.parallel.settings import Batch, Commit, DeadLetter, Order, Park, Retry, Skip, Stop

__all__ = ["Batch", "Commit", "DeadLetter", "Order", "Park", "Retry", "Skip", "Stop"]
