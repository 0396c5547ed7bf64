"""Reads single records at given offsets of many partitions: the first at or after each, as fingerprints.

Partitions are read side by side, the points of each in order. A point that the records of one answer already cover
needs no further request. A partition whose records do not come in time is reported with a reason; it never fails the
others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from seamark.errors import SeamarkError
from seamark.moves.log_matching import Fingerprint, fingerprint
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    from seamark.client import Consumer, Record

# Partitions read at once: each may have one fetched chunk in memory.
_AT_ONCE = 200
# No record of any partition for so long, and those that are left are given up.
_PATIENCE_S = 10.0
# Reading on is cheaper than asking anew for a point that is this near.
_NEAR = 500

Points = Mapping[TopicPartition, Iterable[int]]
FoundAt = dict[TopicPartition, dict[int, Fingerprint | None]]

# What a consumer that reads single records needs: no group, small fetches, everything that is in the log.
CONSUMER_SETTINGS = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "isolation.level": "read_uncommitted",
    "max.partition.fetch.bytes": "65536",
    "fetch.max.wait.ms": "50",
}


def read_points(
    consumer: Consumer, wanted: Points, log_ends: Mapping[TopicPartition, int], *, patience: float = _PATIENCE_S
) -> tuple[FoundAt, dict[TopicPartition, str]]:
    """The first record at or after each point, None where the log ends before one; and what could not be read."""
    records: FoundAt = {}
    unreadable: dict[TopicPartition, str] = {}
    waiting = iter(sorted(wanted))
    while chosen := list(islice(waiting, _AT_ONCE)):
        cursors = {partition: _Cursor(sorted(set(wanted[partition])), log_ends[partition]) for partition in chosen}
        try:
            unreadable |= _read(consumer, cursors, patience)
        except SeamarkError as error:
            unreadable = {
                partition: str(error) for partition, cursor in cursors.items() if not cursor.is_done
            } | unreadable
        for partition, cursor in cursors.items():
            if cursor.is_done:
                records[partition] = cursor.found
            else:
                unreadable.setdefault(partition, f"no record was received for {patience:g} s")
    return records, unreadable


class _Cursor:
    """The points of one partition that are not found yet."""

    def __init__(self, points: Sequence[int], log_end: int) -> None:
        self.found: dict[int, Fingerprint | None] = {}
        self._points = points
        self._next = 0
        self._log_end = log_end
        self.position = -1
        self._settle_end()

    @property
    def is_done(self) -> bool:
        return self._next >= len(self._points)

    @property
    def point(self) -> int:
        return self._points[self._next]

    def take(self, record: Record) -> None:
        self.position = record.offset + 1
        if not self.is_done and record.offset >= self.point:
            seen = fingerprint(record)
            while not self.is_done and record.offset >= self.point:
                self.found[self.point] = seen
                self._next += 1
            self._settle_end()

    def reached(self, position: int) -> None:
        """Everything before the position was seen or is no record."""
        if not self.is_done and position >= self._log_end:
            for point in self._points[self._next :]:
                self.found[point] = None
            self._next = len(self._points)

    @property
    def wants_to_jump(self) -> bool:
        return not self.is_done and not self.position <= self.point <= self.position + _NEAR

    def _settle_end(self) -> None:
        if not self.is_done and self.point >= self._log_end:
            self.reached(self._log_end)


def _read(
    consumer: Consumer,
    cursors: Mapping[TopicPartition, _Cursor],
    patience: float,
    clock: Callable[[], float] = time.monotonic,
) -> dict[TopicPartition, str]:
    """Bring the cursors to their points; the answer is which partitions cannot be read, and why."""
    from seamark.client.errors import CorruptRecords

    unreadable: dict[TopicPartition, str] = {}
    left = {partition for partition, cursor in cursors.items() if not cursor.is_done}
    if not left:
        return unreadable
    consumer.assign(sorted(left))
    # What an earlier call has read to its end is paused still.
    consumer.resume(sorted(left))
    for partition in left:
        _jump(consumer, partition, cursors[partition])
    last = clock()
    while left and clock() - last < patience:
        try:
            records = consumer.poll(0.2)
        except CorruptRecords as error:
            unreadable[error.partition] = f"its records at offset {error.offset} cannot be read: {error.reason}"
            left.discard(error.partition)
            consumer.pause([error.partition])
            continue
        moved = False
        for record in records:
            cursor = cursors[record.topic_partition]
            cursor.take(record)
        # Markers and compacted places move the position without a record.
        for partition in sorted(left):
            cursor = cursors[partition]
            position = consumer.position(partition)
            moved |= position > cursor.position
            cursor.reached(position)
            if cursor.is_done:
                left.discard(partition)
                consumer.pause([partition])
            elif cursor.wants_to_jump:
                _jump(consumer, partition, cursor)
            else:
                cursor.position = position
        if records or moved:
            last = clock()
    return unreadable


def _jump(consumer: Consumer, partition: TopicPartition, cursor: _Cursor) -> None:
    consumer.seek(partition, cursor.point)
    cursor.position = cursor.point
