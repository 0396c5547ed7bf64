"""A cluster for the Spark source's rules, held in memory: logs with a start and an end, topics that come and go.

It answers as ``spark.read.kafka_cluster.KafkaCluster`` does and counts what it was asked. Records are a second old
each offset below the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from seamark.client.errors import ClientError, broker_error
from seamark.client.records import Offset
from seamark.spark.read.cluster import FoundTopic, GroupState
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

_ids = itertools.count(1)


class MemoryCluster:
    def __init__(self, **topics: Sequence[int]) -> None:
        self.ids: dict[str, str] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.groups: dict[str, dict[TopicPartition, Offset]] = {}
        self.states: dict[str, GroupState] = {}
        self.refusal: ErrorCode | None = None
        self.asked: list[str] = []
        self.now_ms = 1_700_000_000_000
        for name, ends in topics.items():
            self.create(name, ends)

    def create(self, topic: str, ends: Sequence[int]) -> None:
        """Make a topic, or make it anew."""
        self.delete(topic)
        self.ids[topic] = f"{next(_ids):032x}"
        self.grow(topic, ends)

    def delete(self, topic: str) -> None:
        self.ids.pop(topic, None)
        for partition in [each for each in self.ends if each.topic == topic]:
            del self.ends[partition], self.starts[partition]

    def grow(self, topic: str, ends: Sequence[int]) -> None:
        for index, end in enumerate(ends):
            self.ends[TopicPartition(topic, index)] = end
            self.starts.setdefault(TopicPartition(topic, index), 0)

    # -- the port

    def topics(self, names: Sequence[str] | None) -> dict[str, FoundTopic]:
        self.asked.append("topics")
        return {
            name: FoundTopic(topic_id, tuple(sorted(each.partition for each in self.ends if each.topic == name)))
            for name, topic_id in self.ids.items()
            if names is None or name in names
        }

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append("ends")
        return {each: self.ends[each] for each in partitions if each in self.ends}

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append("starts")
        return {each: self.starts[each] for each in partitions if each in self.starts}

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for partition, time_ms in times_ms.items():
            fitting = [
                each
                for each in range(self.starts[partition], self.ends[partition])
                if self.time(partition, each) >= time_ms
            ]
            found[partition] = fitting[0] if fitting else None
        return found

    def time(self, partition: TopicPartition, offset: int) -> int:
        return self.now_ms - (self.ends[partition] - offset) * 1000

    def unread_times(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked.append("times")
        return {each: self.time(each, offset) for each, offset in positions.items()}

    def group_state(self, group: str) -> GroupState:
        self.asked.append("group")
        return self.states.get(group, GroupState("Empty", 0, False))

    def committed(
        self, group: str, partitions: Collection[TopicPartition], *, is_brief: bool = False
    ) -> dict[TopicPartition, Offset]:
        self.asked.append("committed")
        has = self.groups.get(group, {})
        return {each: has[each] for each in partitions if each in has}

    def committing_alone(self, group: str) -> AbstractContextManager[None]:
        return nullcontext()

    def commit(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, ClientError]:
        self.asked.append("commit")
        if self.refusal is not None:
            return {each: broker_error(self.refusal, "OffsetCommit", str(each)) for each in offsets}
        self.groups.setdefault(group, {}).update(offsets)
        return {}

    def numbers(self, group: str) -> dict[str, int]:
        """What the group has committed, in short."""
        return {str(each): offset.offset for each, offset in sorted(self.groups.get(group, {}).items())}

    def close(self) -> None:
        self.asked.append("close")
