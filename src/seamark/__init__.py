"""Seamark: how far has this Kafka consumer group safely got?

The names that most programs use are here; each package exports all of its own. Importing this package costs next to
nothing: every part is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seamark._version import __version__

if TYPE_CHECKING:
    from seamark.acls import Acl
    from seamark.broker import Broker, Security, Tls
    from seamark.client import (
        Admin,
        AsyncAdmin,
        AsyncConsumer,
        AsyncProducer,
        Consumer,
        NewTopic,
        Offset,
        Producer,
        Record,
    )
    from seamark.errors import ClosedError, ConfigError, MadeBeforeFork, MissingExtra, SeamarkError, UsageError
    from seamark.parallel import AsyncParallelConsumer, ParallelConsumer
    from seamark.topic_partition import TopicPartition

_HOMES = {
    "seamark.acls": ("Acl",),
    "seamark.broker": ("Broker", "Security", "Tls"),
    "seamark.client": (
        "Admin",
        "AsyncAdmin",
        "AsyncConsumer",
        "AsyncProducer",
        "Consumer",
        "NewTopic",
        "Offset",
        "Producer",
        "Record",
    ),
    "seamark.errors": ("ClosedError", "ConfigError", "MadeBeforeFork", "MissingExtra", "SeamarkError", "UsageError"),
    "seamark.parallel": ("AsyncParallelConsumer", "ParallelConsumer"),
    "seamark.topic_partition": ("TopicPartition",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Acl",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncParallelConsumer",
    "AsyncProducer",
    "Broker",
    "ClosedError",
    "ConfigError",
    "Consumer",
    "MadeBeforeFork",
    "MissingExtra",
    "NewTopic",
    "Offset",
    "ParallelConsumer",
    "Producer",
    "Record",
    "SeamarkError",
    "Security",
    "Tls",
    "TopicPartition",
    "UsageError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
