"""The topics that a simulated group reads: how many records each partition has, and under which leader they came.

Records have no content: an offset is all that a promise about delivery is made of. A partition's leader changes only
by ``lead``, which raises its epoch; nothing is ever truncated, so a leader can tell the end of every epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from seamark.topic_partition import TopicPartition


class PartitionRecords:
    """One partition. ``epochs`` are (epoch, first offset written under it), oldest first."""

    __slots__ = ("_starts", "end", "epochs", "leader", "readers")

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.end = 0
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        self._starts = [0]
        # Called once each when the next record is there.
        self.readers: list[Callable[[], None]] = []

    @property
    def epoch(self) -> int:
        return self.epochs[-1][0]

    def lead(self, node: int) -> None:
        self.leader = node
        self.epochs.append((self.epoch + 1, self.end))
        self._starts.append(self.end)

    def epoch_of(self, offset: int) -> int:
        return self.epochs[bisect_right(self._starts, offset) - 1][0]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The newest epoch up to this one, and where it ended."""
        number = bisect_right(self.epochs, (epoch, 1 << 62)) - 1
        end = self.end if number + 1 == len(self.epochs) else self._starts[number + 1]
        return self.epochs[number][0], end

    def append(self, count: int) -> None:
        self.end += count
        readers, self.readers = self.readers, []
        for reader in readers:
            reader()


class TopicLogs:
    """``counts`` are the partitions per topic, shared with the coordinator; ``revision`` rises with each change."""

    def __init__(self, counts: dict[str, int], nodes: int) -> None:
        self.counts = counts
        self.revision = 0
        self._nodes = nodes
        self.partitions: dict[TopicPartition, PartitionRecords] = {}
        for topic, count in counts.items():
            for number in range(count):
                self._add(topic, number)

    def _add(self, topic: str, number: int) -> None:
        self.partitions[TopicPartition(topic, number)] = PartitionRecords(len(self.partitions) % self._nodes)

    def expand(self, topic: str, up: set[int]) -> None:
        """Give the topic one more partition, led by a node that is there."""
        number = self.counts[topic]
        self._add(topic, number)
        records = self.partitions[TopicPartition(topic, number)]
        if records.leader not in up:
            records.leader = min(up)
        self.counts[topic] = number + 1
        self.revision += 1

    def move_leaders(self, node: int, heirs: list[int]) -> None:
        """The node is gone: others lead what it led."""
        for number, records in enumerate(self.partitions.values()):
            if records.leader == node:
                records.lead(heirs[number % len(heirs)])
        self.revision += 1
