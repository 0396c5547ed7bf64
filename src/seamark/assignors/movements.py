"""Net movements of partitions while a sticky assignment is balanced.

If a partition of a topic has moved from A to B and another of the same topic is about to move from B to A, moving the
first one back has the same effect on balance and keeps both where they were. This record finds that first partition.

Invariant: a partition has at most one movement, from its owner before balancing to its owner now.
"""

from __future__ import annotations

from collections import defaultdict

from seamark.assignors.member_order import place_in_table, table_size, text_hash
from seamark.topic_partition import TopicPartition


class Movements:
    def __init__(self) -> None:
        self._of_partition: dict[TopicPartition, tuple[int, int]] = {}
        self._between: dict[tuple[str, int, int], _MovedPartitions] = defaultdict(_MovedPartitions)

    def better_choice(self, partition: TopicPartition, owner: int, target: int) -> TopicPartition:
        """The partition that should go to ``target`` in place of ``partition``; often itself."""
        first_owner, _ = self._of_partition.get(partition, (owner, owner))
        moved_the_other_way = self._between.get((partition.topic, target, first_owner))
        return moved_the_other_way.first() if moved_the_other_way else partition

    def record(self, partition: TopicPartition, owner: int, target: int) -> None:
        first_owner, last_owner = self._of_partition.pop(partition, (owner, None))
        if last_owner is not None:
            before = partition.topic, first_owner, last_owner
            self._between[before].remove(partition)
            if not self._between[before]:
                del self._between[before]
        if first_owner != target:
            self._of_partition[partition] = first_owner, target
            self._between[partition.topic, first_owner, target].add(partition)


class _MovedPartitions:
    """Partitions of one topic, visited as Java visits a hash set of them, so that both choose the same one."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, None] = {}
        self._places = table_size(0)

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        self._partitions[partition] = None
        self._places = table_size(len(self._partitions), at_least=self._places)

    def remove(self, partition: TopicPartition) -> None:
        del self._partitions[partition]

    def first(self) -> TopicPartition:
        topic_hash = text_hash(next(iter(self._partitions)).topic)
        return min(
            self._partitions,
            key=lambda partition: place_in_table(
                (31 * (31 + partition.partition) + topic_hash) & 0xFFFFFFFF, self._places
            ),
        )
