"""The log that simulated parallel consumers read: offsets with gaps, compaction, retention, and ends that are cut off.

Records are objects with an identity: after a cut another record may stand at the same offset, and what became of the
first says nothing about the second. ``is_gone`` marks those that are no longer in the log. Each cut is an unclean
election: what is written afterwards has the next leader epoch, by which clients tell the second from the first.
"""

from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import Any

from seamark.topic_partition import TopicPartition

Headers = tuple[tuple[str, bytes | None], ...]


class SimulatedRecord:
    """Looks like a client's record; ``is_poison`` makes every simulated handler fail on it."""

    __slots__ = (
        "headers",
        "is_gone",
        "is_poison",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp_ms",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: Any,
        value: Any,
        headers: Headers = (),
        timestamp_ms: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_ms = timestamp_ms
        self.timestamp_type = 0
        self.leader_epoch = leader_epoch
        self.is_poison = False
        self.is_gone = False

    def __repr__(self) -> str:
        return f"Record({self.topic}-{self.partition} @ {self.offset}, key={self.key!r}, value={self.value!r})"


class PartitionLog:
    def __init__(self, name: TopicPartition, start: int = 0) -> None:
        self.name = name
        self.log_start = start
        self.log_end = start
        self.records: list[SimulatedRecord] = []
        self._offsets: list[int] = []
        # Each leader epoch begins at its place in the list's offset.
        self._epoch_starts = [start]

    def append(
        self, key: Any, value: Any, headers: Headers = (), timestamp_ms: int = 0, *, is_poison: bool = False
    ) -> SimulatedRecord:
        topic, partition = self.name
        epoch = len(self._epoch_starts) - 1
        record = SimulatedRecord(topic, partition, self.log_end, key, value, headers, timestamp_ms, epoch)
        record.is_poison = is_poison
        self.records.append(record)
        self._offsets.append(record.offset)
        self.log_end += 1
        return record

    def append_gap(self, offsets: int) -> None:
        """An aborted transaction, or a marker: offsets that nobody is ever shown."""
        self.log_end += offsets

    def read(self, position: int, limit: int) -> tuple[list[SimulatedRecord], int]:
        """Up to ``limit`` records from ``position``, and where reading goes on."""
        position = max(position, self.log_start)
        first = bisect_left(self._offsets, position)
        found = self.records[first : first + limit]
        if first + limit < len(self.records):
            return found, found[-1].offset + 1 if found else position
        return found, max(position, self.log_end)

    def find(self, offset: int) -> SimulatedRecord | None:
        index = bisect_left(self._offsets, offset)
        return self.records[index] if index < len(self._offsets) and self._offsets[index] == offset else None

    def below(self, offset: int) -> list[SimulatedRecord]:
        return self.records[: bisect_left(self._offsets, offset)]

    def has_records(self, since: int) -> bool:
        return bool(self._offsets) and self._offsets[-1] >= since

    def compact(self, rng: Random) -> None:
        """Keep the latest record of each key, but for a tail that the cleaner did not reach."""
        reach = self.log_start + int(rng.random() * (self.log_end - self.log_start))
        latest = {record.key: record for record in self.records if record.key is not None}
        self._keep(
            [
                record
                for record in self.records
                if record.offset >= reach or record.key is None or latest[record.key] is record
            ]
        )

    def delete_before(self, offset: int) -> None:
        """Retention: the log starts at ``offset`` now."""
        self.log_start = min(max(self.log_start, offset), self.log_end)
        self._keep([record for record in self.records if record.offset >= self.log_start])

    def cut(self, offset: int) -> None:
        """An unclean change of leader: the log ends at ``offset``, and a new leader epoch begins there."""
        self._keep(self.below(offset))
        self.log_end = max(offset, self.log_start)
        self._epoch_starts = [min(start, self.log_end) for start in self._epoch_starts]
        self._epoch_starts.append(self.log_end)

    def still_there(self, offset: int, leader_epoch: int) -> int:
        """How much is left of what was read up to ``offset`` when the last record's leader epoch was this one."""
        if leader_epoch < 0 or leader_epoch + 1 >= len(self._epoch_starts):
            return offset
        return min(offset, self._epoch_starts[leader_epoch + 1])

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of the batch before ``offset``, whether or not anybody is shown anything of it."""
        return bisect_left(self._epoch_starts, offset) - 1

    def _keep(self, kept: list[SimulatedRecord]) -> None:
        for record in self.records:
            record.is_gone = True
        for record in kept:
            record.is_gone = False
        self.records = kept
        self._offsets = [record.offset for record in kept]
