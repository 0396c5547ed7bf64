"""Kafka in Spark without jars: ``register(spark)``, then ``format("seamark")`` to read, stream and write.

Needs ``seamark[spark]``. Importing this package loads neither Spark nor Arrow: all but ``register`` is loaded when
it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seamark.spark.registration import register

if TYPE_CHECKING:
    from seamark.spark.errors import (
        AsyncProgress,
        BadCheckpoint,
        GroupIsActive,
        GroupLocked,
        NoGroupOffset,
        OffsetNotInLog,
        RecordsLost,
        SparkSourceError,
        TopicMissing,
        TopicRecreated,
    )
    from seamark.spark.watch.listener import ProgressListener
    from seamark.spark.write.options import BadColumns
    from seamark.spark.write.producers import CannotWrite
    from seamark.spark.write.rows import BadRow

_HOMES = {
    "seamark.spark.errors": (
        "AsyncProgress",
        "BadCheckpoint",
        "GroupIsActive",
        "GroupLocked",
        "NoGroupOffset",
        "OffsetNotInLog",
        "RecordsLost",
        "SparkSourceError",
        "TopicMissing",
        "TopicRecreated",
    ),
    "seamark.spark.watch.listener": ("ProgressListener",),
    "seamark.spark.write.options": ("BadColumns",),
    "seamark.spark.write.producers": ("CannotWrite",),
    "seamark.spark.write.rows": ("BadRow",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AsyncProgress",
    "BadCheckpoint",
    "BadColumns",
    "BadRow",
    "CannotWrite",
    "GroupIsActive",
    "GroupLocked",
    "NoGroupOffset",
    "OffsetNotInLog",
    "ProgressListener",
    "RecordsLost",
    "SparkSourceError",
    "TopicMissing",
    "TopicRecreated",
    "register",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
