"""The parallel consumer: records run concurrently, and the committed offset never passes unfinished work.

The cores are pure: they are given time and chance, hold no lock, and start no thread. ``engine`` puts them together;
``runtime`` is the one owner that runs it; ``consumer`` and ``async_consumer`` are what users make, loaded when they are
asked for, because they bring a client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seamark.parallel.settings import Batch, Commit, DeadLetter, Order, Park, Retry, Skip, Stop

if TYPE_CHECKING:
    from seamark.parallel.async_consumer import AsyncParallelConsumer
    from seamark.parallel.consumer import ParallelConsumer
    from seamark.parallel.handle import ConsumerStopped

_HOMES = {
    "AsyncParallelConsumer": "seamark.parallel.async_consumer",
    "ConsumerStopped": "seamark.parallel.handle",
    "ParallelConsumer": "seamark.parallel.consumer",
}

__all__ = [
    "AsyncParallelConsumer",
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
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
