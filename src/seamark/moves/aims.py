"""Where each stored offset has to point on the target when both sides mean the same logs.

That is so between ZooKeeper and Kafka, and between two groups of one cluster: the number stays. What has to be looked
at is the cluster that holds the logs: whether the topic, the partition and the offset are there at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from seamark.counts import counted
from seamark.moves.move import How
from seamark.plans.cluster_reading import read_logs, read_topics
from seamark.plans.plan import LogRange, TopicState, outside_log
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    from seamark.client import Admin


REMEDY = "--allow-outside-log sets it as it is"


class Aim(NamedTuple):
    """Where one offset goes; with a ``problem`` it must not. ``keeps_text`` says that metadata still fits it.

    ``repeats_all`` says that ``repeated`` counts the whole log, whatever the group has done of it.
    """

    offset: int | None
    how: str = ""
    note: str = ""
    problem: str = ""
    repeated: int | None = None
    keeps_text: bool = True
    keeps_epoch: bool = False
    repeats_all: bool = False


Wanted = Mapping[TopicPartition, Iterable[int]]
Aims = dict[tuple[TopicPartition, int], Aim]


class Aiming(Protocol):
    """Finds the target's offset for offsets of the source."""

    def aims(self, wanted: Wanted) -> Aims: ...

    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics that were aimed at, "" where the broker knows none."""
        ...


class ClusterLogs:
    """Topics and logs of one cluster, each looked at once; memory grows with its partitions, not with groups."""

    def __init__(self, admin: Admin, name: str) -> None:
        self._admin = admin
        self.name = name
        self.topics: dict[str, TopicState | None] = {}
        self.logs: dict[TopicPartition, LogRange] = {}
        self.unreadable: dict[TopicPartition, str] = {}

    def look_at(self, wanted: Wanted) -> None:
        """Know the logs of these partitions; one that has grown past what is known is looked at again."""
        unknown = {partition.topic for partition in wanted} - self.topics.keys()
        described = read_topics(self._admin, unknown)
        self.topics |= {topic: described.get(topic) for topic in unknown}
        known = {
            partition
            for partition, offsets in wanted.items()
            if partition in self.unreadable
            or (partition in self.logs and max(offsets, default=0) <= self.logs[partition].log_end)
        }
        logs, unreadable = read_logs(
            self._admin, {partition for partition in wanted if not self.absence(partition)} - known
        )
        self.logs |= logs
        self.unreadable |= unreadable

    def absence(self, partition: TopicPartition) -> str:
        """Why there is no such partition; empty if there is."""
        topic = self.topics.get(partition.topic)
        if topic is None:
            return f"topic {partition.topic!r} does not exist in {self.name}"
        if partition.partition >= topic.partition_count:
            partitions = counted(topic.partition_count, "partition")
            return f"topic {partition.topic!r} has only {partitions} in {self.name}"
        return ""

    def problem(self, partition: TopicPartition) -> str:
        """Why nothing can be said of the partition; empty if its log is known."""
        absent = self.absence(partition)
        if not absent and partition not in self.logs:
            reason = self.unreadable.get(partition, "it was not requested")
            return f"the log in {self.name} cannot be read ({reason})"
        return absent

    def topic_ids(self) -> dict[str, str]:
        return {name: topic.topic_id for name, topic in sorted(self.topics.items()) if topic is not None}


class SameLogs:
    """The numbers stay; ``cluster`` is where the logs are."""

    def __init__(self, cluster: ClusterLogs, *, allow_outside_log: bool = False) -> None:
        self._cluster = cluster
        self._allow_outside_log = allow_outside_log

    def aims(self, wanted: Wanted) -> Aims:
        self._cluster.look_at(wanted)
        return {
            (partition, offset): self._aim(partition, offset)
            for partition, offsets in wanted.items()
            for offset in offsets
        }

    def topic_ids(self) -> dict[str, str]:
        return self._cluster.topic_ids()

    def _aim(self, partition: TopicPartition, offset: int) -> Aim:
        if problem := self._cluster.problem(partition):
            return Aim(None, problem=problem)
        beyond = outside_log(offset, self._cluster.logs[partition])
        if beyond and not self._allow_outside_log:
            return Aim(None, problem=f"{beyond} in {self._cluster.name}; {REMEDY}")
        return Aim(offset, How.SAME_LOG, note=beyond, keeps_epoch=True)
