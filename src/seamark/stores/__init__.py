"""Where committed offsets are kept, behind one contract: Kafka, ZooKeeper, a file.

    with ZookeeperStore("zk1:2181/kafka") as old, KafkaStore(bootstrap_servers="broker:9092") as new:
        for group, offsets in old.read_many(old.groups()):
            new.write(group, offsets.good)

Names are loaded when they are first asked for: the ZooKeeper store needs the extra ``zookeeper``, the others nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamark.stores.contract import BadOffset, GroupOffsets, OffsetStore, StoredOffset
    from seamark.stores.file import FileStore
    from seamark.stores.kafka import KafkaStore
    from seamark.zookeeper.store import ZookeeperStore

_HOMES = {
    "BadOffset": "seamark.stores.contract",
    "FileStore": "seamark.stores.file",
    "GroupOffsets": "seamark.stores.contract",
    "KafkaStore": "seamark.stores.kafka",
    "OffsetStore": "seamark.stores.contract",
    "StoredOffset": "seamark.stores.contract",
    "ZookeeperStore": "seamark.zookeeper.store",
}

__all__ = [
    "BadOffset",
    "FileStore",
    "GroupOffsets",
    "KafkaStore",
    "OffsetStore",
    "StoredOffset",
    "ZookeeperStore",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
