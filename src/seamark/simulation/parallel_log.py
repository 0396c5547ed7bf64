"""The log that simulated parallel consumers read: offsets with gaps, compaction, retention, and ends that are cut off.

Records are objects with an identity: after a cut another record may stand at the same offset, and what became of the
first says nothing about the second. Two marks tell the checks what cannot be asked for: ``is_gone``, the record is no
longer in the log; ``is_unpromised``, it was written below an offset that had been read before a cut, so a group that
had committed beyond may never see it.
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
        "is_unpromised",
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
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_ms = timestamp_ms
        self.timestamp_type = 0
        self.leader_epoch = 0
        self.is_poison = False
        self.is_gone = False
        self.is_unpromised = False

    def __repr__(self) -> str:
        return f"Record({self.topic}-{self.partition} @ {self.offset}, key={self.key!r}, value={self.value!r})"


class PartitionLog:
    def __init__(self, name: TopicPartition, start: int = 0) -> None:
        self.name = name
        self.log_start = start
        self.log_end = start
        self.records: list[SimulatedRecord] = []
        self._offsets: list[int] = []
        # Offsets below were written once and cut.
        self._rewritten_below = 0

    def append(
        self, key: Any, value: Any, headers: Headers = (), timestamp_ms: int = 0, *, is_poison: bool = False
    ) -> SimulatedRecord:
        record = SimulatedRecord(self.name.topic, self.name.partition, self.log_end, key, value, headers, timestamp_ms)
        record.is_poison = is_poison
        record.is_unpromised = record.offset < self._rewritten_below
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
        """An unclean change of leader: the log ends at ``offset``."""
        self._rewritten_below = max(self._rewritten_below, self.log_end)
        self._keep(self.below(offset))
        self.log_end = max(offset, self.log_start)

    def _keep(self, kept: list[SimulatedRecord]) -> None:
        for record in self.records:
            record.is_gone = True
        for record in kept:
            record.is_gone = False
        self.records = kept
        self._offsets = [record.offset for record in kept]
