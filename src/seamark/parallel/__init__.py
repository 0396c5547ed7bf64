"""The parallel consumer: records run concurrently, and the committed offset never passes unfinished work.

The cores are pure: they are given time and chance, hold no lock, and start no thread. ``engine`` puts them together;
``runtime`` is the one owner that runs it, and ``consumer`` what users make. The latter is loaded when it is asked for,
because it brings a client, and so is all that belongs to it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seamark.parallel.settings import Batch, Commit, DeadLetter, Order, Park, Retry, Skip, Stop

if TYPE_CHECKING:
    from seamark.parallel.consumer import ConsumerStopped, OwnerBusy, ParallelConsumer
    from seamark.parallel.core.ports import SetAside
    from seamark.parallel.core.stall import Stall
    from seamark.parallel.core.work import Where
    from seamark.parallel.observe.health import HasStatus, HealthServer
    from seamark.parallel.observe.progress import Progress
    from seamark.parallel.observe.status import (
        CommitStatus,
        ParkedRecord,
        PartitionStatus,
        StallStatus,
        State,
        Status,
        Summary,
    )

_HOMES = {
    "seamark.parallel.consumer": ("ConsumerStopped", "OwnerBusy", "ParallelConsumer"),
    "seamark.parallel.core.ports": ("SetAside",),
    "seamark.parallel.core.stall": ("Stall",),
    "seamark.parallel.core.work": ("Where",),
    "seamark.parallel.observe.health": ("HasStatus", "HealthServer"),
    "seamark.parallel.observe.progress": ("Progress",),
    "seamark.parallel.observe.status": (
        "CommitStatus",
        "ParkedRecord",
        "PartitionStatus",
        "StallStatus",
        "State",
        "Status",
        "Summary",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Batch",
    "Commit",
    "CommitStatus",
    "ConsumerStopped",
    "DeadLetter",
    "HasStatus",
    "HealthServer",
    "Order",
    "OwnerBusy",
    "ParallelConsumer",
    "Park",
    "ParkedRecord",
    "PartitionStatus",
    "Progress",
    "Retry",
    "SetAside",
    "Skip",
    "Stall",
    "StallStatus",
    "State",
    "Status",
    "Stop",
    "Summary",
    "Where",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
