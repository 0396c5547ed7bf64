"""Back-pressure: how much is held over everything, by partition, and whose fetching is paused.

Owns the byte and record limits over all that is held: fetched, queued, running, retrying, and copies on their way to
the dead-letter topic. Polling itself never stops, as it keeps the membership alive; only partitions are paused.

A partition is paused when it holds more than ``SHARE`` times what is still free, and resumed when it holds less than
half of that. So one busy partition gets most of the budget, many share it, and what one of them cannot get rid of (a
parked key, a slow handler) always leaves room for the others: the rule switches share a memory by.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

from seamark.counts import counted
from seamark.errors import ConfigError, SeamarkError
from seamark.parallel.core.ports import Message
from seamark.parallel.core.work import InFlightRecord
from seamark.topic_partition import TopicPartition

# With 4, a single partition may fill four fifths of the budget.
SHARE = 4
# What a small record costs in Python objects beyond its bytes: record, work item, entries in dicts and queues.
RECORD_OVERHEAD_BYTES = 680
# And a header: two objects in a tuple, for two bytes on the wire.
HEADER_OVERHEAD_BYTES = 100


class BudgetBroken(SeamarkError):
    """More was given back than was held; the count can no longer be trusted."""


class Changes(NamedTuple):
    pause: list[TopicPartition]
    resume: list[TopicPartition]


class _Held:
    __slots__ = ("is_paused", "records", "size")

    def __init__(self) -> None:
        self.size = 0
        self.records = 0
        self.is_paused = False


def record_size(record: Message) -> int:
    """What holding a record costs."""
    key, value = record.key, record.value
    # Bytes, nearly always.
    size = (
        RECORD_OVERHEAD_BYTES
        + (len(key) if type(key) is bytes else _length(key))
        + (len(value) if type(value) is bytes else _length(value))
    )
    if record.headers:
        for name, content in record.headers:
            size += HEADER_OVERHEAD_BYTES + len(name) + _length(content)
    return size


def _length(part: object) -> int:
    if part is None:
        return 0
    return len(part) if isinstance(part, (bytes, str, bytearray, memoryview)) else sys.getsizeof(part)


class Budget:
    """``hold`` and ``give_back`` what comes and goes; ``changes`` says whom to pause and resume."""

    def __init__(self, max_bytes: int, max_records: int) -> None:
        if max_bytes < 1:
            raise ConfigError("buffer_bytes", max_bytes, "must be at least 1")
        if max_records < 1:
            raise ConfigError("buffer_records", max_records, "must be at least 1")
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.held_bytes = 0
        self.held_records = 0
        self.highest_bytes = 0
        self._assigned: dict[TopicPartition, _Held] = {}
        # Held by partitions that went away while their handlers were running.
        self._gone: dict[TopicPartition, _Held] = {}

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._assigned[partition] = self._gone.pop(partition) if partition in self._gone else _Held()

    def released(self, partitions: Iterable[TopicPartition]) -> None:
        """These went away; what they still hold counts until it is given back."""
        for partition in partitions:
            held = self._assigned.pop(partition, None)
            # A copy on its way to the dead-letter topic is bytes without a record.
            if held is not None and (held.records or held.size):
                held.is_paused = False
                self._gone[partition] = held

    def hold(self, partition: TopicPartition, size: int, records: int = 1) -> None:
        held = self._assigned.get(partition) or self._gone.setdefault(partition, _Held())
        held.size += size
        held.records += records
        self.held_bytes += size
        self.held_records += records
        self.highest_bytes = max(self.highest_bytes, self.held_bytes)

    def give_back(self, partition: TopicPartition, size: int, records: int = 1) -> None:
        held = self._assigned.get(partition) or self._gone.get(partition)
        if held is None or held.size < size or held.records < records:
            raise BudgetBroken(
                f"{partition} releases {counted(records, 'record')} of {counted(size, 'byte')} that it does not hold"
            )
        held.size -= size
        held.records -= records
        self.held_bytes -= size
        self.held_records -= records
        if not (held.records or held.size) and partition in self._gone:
            del self._gone[partition]

    def give_back_works(self, works: Iterable[InFlightRecord]) -> None:
        """As ``give_back`` for each."""
        sizes: dict[TopicPartition, int] = {}
        counts: dict[TopicPartition, int] = {}
        for work in works:
            partition = work.partition
            sizes[partition] = sizes.get(partition, 0) + work.size_bytes
            counts[partition] = counts.get(partition, 0) + work.count
        for partition, size in sizes.items():
            self.give_back(partition, size, counts[partition])

    def give_back_all(self, partition: TopicPartition, works: Iterable[InFlightRecord]) -> None:
        """As ``give_back`` for each of one partition's."""
        size = count = 0
        for work in works:
            size += work.size_bytes
            count += work.count
        self.give_back(partition, size, count)

    def held_by(self, partition: TopicPartition) -> tuple[int, int]:
        """Bytes and records."""
        held = self._assigned.get(partition) or self._gone.get(partition)
        return (held.size, held.records) if held else (0, 0)

    def room_records(self) -> int:
        """How many records the next poll may bring at most; never 0, as polling goes on."""
        return max(1, self.max_records - self.held_records)

    def paused(self) -> list[TopicPartition]:
        return sorted(partition for partition, held in self._assigned.items() if held.is_paused)

    def changes(self) -> Changes:
        """Whom to pause and whom to resume now; asking again without a change gives nothing."""
        free_bytes = SHARE * max(0, self.max_bytes - self.held_bytes)
        free_records = SHARE * max(0, self.max_records - self.held_records)
        pause, resume = [], []
        for partition, held in self._assigned.items():
            if held.is_paused:
                # Half, so that a partition does not go back and forth with every record.
                if held.size * 2 <= free_bytes and held.records * 2 <= free_records:
                    held.is_paused = False
                    resume.append(partition)
            elif held.size > free_bytes or held.records > free_records:
                held.is_paused = True
                pause.append(partition)
        return Changes(pause, resume)
