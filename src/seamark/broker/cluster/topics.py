"""A topic and the rules for its name.

Names are Kafka's: letters, digits, dot, dash and underscore, at most 249 of them. Two names that differ only in dots
and underscores cannot both exist, since metrics would mix them up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from seamark.broker.config.topic_configs import TopicConfig
from seamark.broker.log.partition import Partition
from seamark.broker.refusals import RequestRefused
from seamark.wire.protocol.error_codes import ErrorCode

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})

_LARGEST_NAME = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


class Topic:
    """``id`` is sixteen bytes; a topic made again under the same name has another one."""

    __slots__ = ("_stored", "config", "id", "is_internal", "name", "partitions")

    def __init__(self, name: str, topic_id: bytes, config: TopicConfig) -> None:
        self.name = name
        self.id = topic_id
        self.config = config
        self.is_internal = name in INTERNAL_TOPICS
        self.partitions: list[Partition] = []
        self._stored: str | None = None

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def stored(self) -> str:
        """The topic's entry in the state file: its name and what outlives the process, as JSON."""
        if self._stored is None:
            content = {
                "id": self.id.hex(),
                "config": self.config.own,
                "partitions": [{"replicas": p.replicas, "leader_epoch": p.leader_epoch} for p in self.partitions],
            }
            self._stored = f"{json.dumps(self.name)}: {json.dumps(content)}"
        return self._stored

    def changed(self) -> None:
        """Something of what is stored is another now."""
        self._stored = None


def check_name(name: str) -> None:
    """Refuse a name that Kafka refuses.

    >>> check_name("orders.v2")
    """
    reason = ""
    if not name:
        reason = "a topic name must not be empty"
    elif name in (".", ".."):
        reason = f"{name!r} is not a valid topic name"
    elif len(name) > _LARGEST_NAME:
        reason = f"a topic name may have at most {_LARGEST_NAME} characters, {name[:20]!r}... has {len(name)}"
    elif not _NAME.fullmatch(name):
        reason = f"the topic name {name!r} has characters other than a-z, A-Z, 0-9, '.', '-' and '_'"
    if reason:
        raise RequestRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def metric_name(name: str) -> str:
    """What metrics make of a topic's name."""
    return name.replace(".", "_")


def check_collision(name: str, by_metric_name: Mapping[str, str]) -> None:
    """Refuse a name that equals another one but for dots and underscores."""
    other = by_metric_name.get(metric_name(name), name)
    if other != name:
        raise RequestRefused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{name!r} and the topic {other!r} differ only in dots and underscores",
        )
