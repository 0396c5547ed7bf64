"""What the commits of one client have in common: all but the offsets, worked out once.

A consumer commits the same partitions again and again, under the same generation and with the same metadata. A
``CommitPattern`` holds that part, with everything that follows from it: the keys, the reply in which all went well,
which partitions must exist. A repeated commit is then decided with a few comparisons, and always as the whole
command would be: whatever is not plainly fine is spelled out and goes the general way.

>>> from seamark.coordinator.commands import CommitOffsets
>>> pattern = CommitPattern.of(CommitOffsets("g", [("t", [(0, 5, -1, None), (2, 6, 3, "m")])]))
>>> pattern.keys, pattern.partition_counts
((('t', 0), ('t', 2)), (('t', 3),))
>>> pattern.records_of((7, 8), 1000)[1]
OffsetCommitted(group_id='g', topic='t', partition=2, offset=8, leader_epoch=3, metadata='m', commit_ms=1000, \
expire_ms=-1)
>>> pattern.with_offsets((7, 8)).topics
[('t', [(0, 7, -1, None), (2, 8, 3, 'm')])]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

from seamark.coordinator.commands import NO_RETENTION, CommitOffsets, OffsetToCommit
from seamark.coordinator.replies import CommitReply
from seamark.coordinator.storing.records import NO_EXPIRY, OffsetCommitted, Record
from seamark.wire.protocol.error_codes import ErrorCode

_NONE = ErrorCode.NONE
# In place of the class itself, whose own constructor takes the fields one by one.
_from_tuple: Any = tuple.__new__


class RepeatedRecords(list[Record]):
    """The records of a repeated commit; they say besides what they were made of."""

    __slots__ = ("commit_ms", "offsets", "pattern")

    pattern: CommitPattern
    offsets: Sequence[int]
    commit_ms: int


class CommitPattern:
    """``stored_form`` is the shell's, for what it makes of the pattern; nothing here looks at it."""

    __slots__ = (
        "_columns_after",
        "_columns_before",
        "_command",
        "generation",
        "group_id",
        "instance_id",
        "keys",
        "longest_metadata",
        "member_id",
        "missing_group_is_not_found",
        "partition_counts",
        "reply",
        "stored_form",
    )

    @classmethod
    def of(cls, command: CommitOffsets) -> CommitPattern | None:
        """The pattern of a command; None for those that are too special to have one."""
        if command.group_id is None or command.retention_ms != NO_RETENTION or command.commit_times_ms is not None:
            return None
        if not command.topics or not all(partitions for _, partitions in command.topics):
            return None
        if any(entry[0] < 0 for _, partitions in command.topics for entry in partitions):
            return None
        return cls(command, command.group_id)

    def __init__(self, command: CommitOffsets, group_id: str) -> None:
        self._command = command
        self.group_id = group_id
        self.generation = command.generation
        self.member_id = command.member_id
        self.instance_id = command.instance_id
        self.missing_group_is_not_found = command.missing_group_is_not_found
        entries = [(topic, *entry) for topic, partitions in command.topics for entry in partitions]
        self.keys = tuple((topic, partition) for topic, partition, _, _, _ in entries)
        metadata = [text or "" for _, _, _, _, text in entries]
        # A character takes two UTF-16 code units at most, and those are what is counted.
        self.longest_metadata = 2 * max(map(len, metadata))
        counts: dict[str, int] = {}
        for topic, partition in self.keys:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        # How many partitions each topic must have for all of them to exist.
        self.partition_counts = tuple(counts.items())
        self._columns_before = (repeat(group_id), [topic for topic, _ in self.keys], [index for _, index in self.keys])
        self._columns_after = ([epoch for _, _, _, epoch, _ in entries], metadata)
        # One for all the commits that succeed, which therefore nobody may change.
        self.reply = CommitReply(
            [(topic, [(entry[0], _NONE) for entry in partitions]) for topic, partitions in command.topics]
        )
        self.stored_form: Any = None

    def records_of(self, offsets: Sequence[int], now_ms: int) -> RepeatedRecords:
        fields = zip(*self._columns_before, offsets, *self._columns_after, repeat(now_ms), repeat(NO_EXPIRY))
        records = RepeatedRecords(map(_from_tuple, repeat(OffsetCommitted), fields))
        records.pattern = self
        records.offsets = offsets
        records.commit_ms = now_ms
        return records

    def with_offsets(self, offsets: Sequence[int]) -> CommitOffsets:
        """The command that the pattern was made of, with these offsets."""
        command = self._command
        left = iter(offsets)
        return CommitOffsets(
            command.group_id,
            [(topic, list(_moved(partitions, left))) for topic, partitions in command.topics],
            command.generation,
            command.member_id,
            command.instance_id,
            command.retention_ms,
            command.missing_group_is_not_found,
        )


class CommitAgain:
    """A commit that differs from an earlier one only in its offsets; these are in the order of the pattern's keys."""

    __slots__ = ("group_id", "offsets", "pattern")

    def __init__(self, pattern: CommitPattern, offsets: Sequence[int]) -> None:
        self.pattern = pattern
        self.offsets = offsets
        self.group_id = pattern.group_id

    def spelled_out(self) -> CommitOffsets:
        """The same as a command of its own."""
        return self.pattern.with_offsets(self.offsets)


def _moved(partitions: Sequence[OffsetToCommit], offsets: Iterator[int]) -> Iterator[Any]:
    for partition, _, leader_epoch, metadata in partitions:
        yield partition, next(offsets), leader_epoch, metadata
