"""The parallel consumer: records run concurrently, and the committed offset never passes unfinished work.

The cores are pure: they are given time and chance, hold no lock, and start no thread. ``engine`` puts them together;
``runtime`` is the one owner that runs it; ``consumer`` and ``async_consumer`` are what users make. Names are loaded
when they are first asked for, because a consumer brings a client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seamark.parallel.settings import Batch, Commit, DeadLetter, Order, Park, Retry, Skip, Stop

if TYPE_CHECKING:
    from seamark.parallel.async_consumer import AsyncParallelConsumer
    from seamark.parallel.consumer import ParallelConsumer
    from seamark.parallel.core.handler_kinds import WorkNotDone
    from seamark.parallel.core.ports import SetAside
    from seamark.parallel.core.stall import Stall
    from seamark.parallel.core.work import RecordState
    from seamark.parallel.handle import ConsumerStopped, OwnerBusy
    from seamark.parallel.observe.health import HealthServer
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
    from seamark.parallel.pools.call import UnreadableRecord
    from seamark.parallel.pools.process_calls import HandlerErrorLost, HandlerProcessDied

_HOMES = {
    "AsyncParallelConsumer": "async_consumer",
    "CommitStatus": "observe.status",
    "ConsumerStopped": "handle",
    "HandlerErrorLost": "pools.process_calls",
    "HandlerProcessDied": "pools.process_calls",
    "HealthServer": "observe.health",
    "OwnerBusy": "handle",
    "ParallelConsumer": "consumer",
    "ParkedRecord": "observe.status",
    "PartitionStatus": "observe.status",
    "Progress": "observe.progress",
    "RecordState": "core.work",
    "SetAside": "core.ports",
    "Stall": "core.stall",
    "StallStatus": "observe.status",
    "State": "observe.status",
    "Status": "observe.status",
    "Summary": "observe.status",
    "UnreadableRecord": "pools.call",
    "WorkNotDone": "core.handler_kinds",
}

__all__ = [
    "AsyncParallelConsumer",
    "Batch",
    "Commit",
    "CommitStatus",
    "ConsumerStopped",
    "DeadLetter",
    "HandlerErrorLost",
    "HandlerProcessDied",
    "HealthServer",
    "Order",
    "OwnerBusy",
    "ParallelConsumer",
    "Park",
    "ParkedRecord",
    "PartitionStatus",
    "Progress",
    "RecordState",
    "Retry",
    "SetAside",
    "Skip",
    "Stall",
    "StallStatus",
    "State",
    "Status",
    "Stop",
    "Summary",
    "UnreadableRecord",
    "WorkNotDone",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
