"""What the source asks of Kafka on the driver, as a port: topics, ends of logs, group offsets, and commits.

Everything that decides takes a ``Cluster`` as an argument; ``kafka_cluster`` asks real brokers, and tests give another.
No client is loaded with it, because tasks need what decides but not whom it asks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from seamark.client import Offset
    from seamark.client.errors import ClientError
    from seamark.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as it is now; ``topic_id`` is empty where the broker tells none."""

    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupState:
    state: str
    members: int
    is_active: bool


class Cluster(Protocol):
    """Answers about the cluster. Partitions that do not exist are missing in answers, other errors are raised."""

    def topics(self, names: Sequence[str] | None) -> dict[str, FoundTopic]: ...

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]: ...

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]: ...

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...

    def unread_times(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]: ...

    def group_state(self, group: str) -> GroupState: ...

    def committed(
        self, group: str, partitions: Collection[TopicPartition], *, is_brief: bool = False
    ) -> dict[TopicPartition, Offset]: ...

    def committing_alone(self, group: str) -> AbstractContextManager[None]: ...

    def commit(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, ClientError]: ...

    def close(self) -> None: ...
