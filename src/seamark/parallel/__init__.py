"""The parallel consumer: records run concurrently, and the committed offset never passes unfinished work.

The cores are pure: they are given time and chance, hold no lock, and start no thread. ``engine`` puts them together;
``runtime`` is the one owner that runs it, and ``consumer`` what users make. The latter is loaded when it is asked for,
because it brings a client.
"""

from typing import TYPE_CHECKING, Any

from seamark.parallel.settings import Batch, Commit, DeadLetter, Order, Park, Retry, Skip, Stop

if TYPE_CHECKING:
    from seamark.parallel.consumer import ConsumerStopped, ParallelConsumer

__all__ = [
    "Batch",
    "Commit",
    "ConsumerStopped",
    "DeadLetter",
    "Order",
    "ParallelConsumer",
    "Park",
    "Retry",
    "Skip",
    "Stop",
]


def __getattr__(name: str) -> Any:
    if name in ("ParallelConsumer", "ConsumerStopped"):
        from seamark.parallel import consumer

        return getattr(consumer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
