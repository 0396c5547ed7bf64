"""The records of a repeated commit, as bytes with gaps.

Between two commits of one pattern the records differ in three numbers each: the distance from the batch's first
offset, the committed offset, and the time of the commit. The bytes around them are made once, by the same writer that
writes all other records, and so are the places of the gaps: written with all bits clear and with all bits set, the
records differ exactly there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from struct import Struct

from seamark.coordinator.offsets.commit_patterns import CommitPattern
from seamark.coordinator.storing.records import Record
from seamark.wire.protocol.template import gaps_between

# Distances below this one take a single byte, twice their value.
SHORT_DELTAS = 64
# Of one record: three runs of bytes, and behind each of them a number.
_FIELDS = 6

EncodeRecord = Callable[[Record, int], bytes]


class StoredForm:
    """``size`` is that of all records together; ``encode`` takes the place in the batch, offsets and time."""

    __slots__ = ("_count", "_fields", "_pack", "size")

    def __init__(self, pattern: CommitPattern, encode_record: EncodeRecord) -> None:
        self._count = len(pattern.keys)
        clear, stamped = pattern.records_of([0] * self._count, 0), pattern.records_of([0] * self._count, -1)
        offset = pattern.records_of([-1] * self._count, 0)
        layout = ">"
        fields: list[bytes | int] = []
        fixed = b""
        for number in range(self._count):
            content = encode_record(clear[number], 0)
            [delta_at] = gaps_between(content, encode_record(clear[number], SHORT_DELTAS - 1), 1)
            [offset_at] = gaps_between(content, encode_record(offset[number], 0), 8)
            [time_at] = gaps_between(content, encode_record(stamped[number], 0), 8)
            pieces = (
                fixed + content[:delta_at],
                content[delta_at + 1 : offset_at],
                content[offset_at + 8 : time_at],
            )
            layout += "{}sB{}sq{}sq".format(*map(len, pieces))
            fields += (pieces[0], 0, pieces[1], 0, pieces[2], 0)
            fixed = content[time_at + 8 :]
        layout += f"{len(fixed)}s"
        fields.append(fixed)
        packer = Struct(layout)
        self.size = packer.size
        self._pack = packer.pack
        # The numbers in it are those of the commit that was written last.
        self._fields = fields

    def encode(self, delta: int, offsets: Sequence[int], commit_ms: int) -> bytes:
        """The records; ``delta`` is the distance of the first, and that of the last is below ``SHORT_DELTAS``."""
        fields = self._fields
        fields[1::_FIELDS] = range(2 * delta, 2 * (delta + self._count), 2)
        fields[3::_FIELDS] = offsets
        fields[5::_FIELDS] = repeat(commit_ms, self._count)
        return self._pack(*fields)
