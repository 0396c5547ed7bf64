"""Records of one size in a row, read by columns: half the time per record where keys and values do not vary in length.

Such records have every field at the same place, so one ``struct`` takes all of them apart in compiled code. Whether
they really are alike is seen from their columns of lengths and offset deltas; if not, the answer is that none are, and
``fast_reader`` goes on record by record.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat
from struct import Struct

from seamark.wire.records.record_batch import BatchHeader
from seamark.wire.records.record_cursor import MakeRecord, R
from seamark.wire.records.varints import small_varints

# Fewer are not worth a struct.
_LEAST = 8
_ONE_BYTE, _TWO_BYTES = 64, 2048


class _Shape:
    """Where the fields of a record lie, and the bytes that all records of its kind share."""

    __slots__ = ("has_headers", "key_size", "length", "row", "size", "value_size")

    def __init__(self, record: bytes) -> None:
        length_width = 1 if record[0] < 0x80 else 2
        at = length_width + 1
        time_width = 1
        while record[at] > 0x7F:
            at += 1
            time_width += 1
        at += 1
        delta_width = 1 if record[at] < 0x80 else 2
        at += delta_width
        self.length = record[:length_width]
        self.key_size = record[at : at + 1]
        key_bytes = 0 if record[at] == 1 else record[at] >> 1
        at += 1 + key_bytes
        value_width = 1 if record[at] < 0x80 else 2
        self.value_size = record[at : at + value_width]
        value_bytes = 0 if record[at] == 1 else _number(self.value_size) >> 1
        # Whatever stands between the value and the end, but for the count of headers, are headers.
        self.has_headers = at + value_width + value_bytes + 1 != len(record)
        self.size = len(record)
        self.row = _row(length_width, time_width, delta_width, key_bytes, value_width, value_bytes)


@lru_cache(maxsize=256)
def _row(*widths: int) -> Struct:
    return Struct("{}sx{}s{}s1s{}s{}s{}sB".format(*widths))


def read_fixed_size(
    content: bytes,
    begin: int,
    end: int,
    delta: int,
    left: int,
    header: BatchHeader,
    make: MakeRecord[R],
    topic: str,
    partition: int,
) -> list[R]:
    """The records behind the one from ``begin`` to ``end`` that are like it, as far as ``delta`` keeps its width.

    All of them, or none.
    """
    record = content[begin:end]
    limit = _ONE_BYTE if delta < _ONE_BYTE else _TWO_BYTES
    count = min(left, limit - delta - 1, (len(content) - end) // len(record))
    if count < _LEAST:
        return []
    shape = _Shape(record)
    if shape.has_headers:
        return []
    stop = end + count * shape.size
    for probe in (stop - shape.size, end + count // 2 * shape.size):
        if not content.startswith(shape.length, probe):
            return []
    rows = shape.row.iter_unpack(memoryview(content)[end:stop])
    lengths, times, deltas, key_sizes, keys, value_sizes, values, tails = zip(*rows, strict=True)
    if not (
        deltas == small_varints()[delta + 1 : delta + 1 + count]
        and lengths.count(shape.length) == count
        and key_sizes.count(shape.key_size) == count
        and value_sizes.count(shape.value_size) == count
        and not any(tails)
    ):
        return []
    elapsed = list(map(_elapsed, times))
    if None in elapsed:
        return []
    first = header.base_offset + delta + 1
    base = header.base_timestamp_ms
    stamps: Iterable[int] = repeat(header.max_timestamp_ms)
    if not header.timestamp_type:
        stamps = [base + since_base for since_base in elapsed]  # type: ignore[operator]
    return list(
        map(
            make,
            repeat(topic),
            repeat(partition),
            range(first, first + count),
            repeat(None) if shape.key_size == b"\x01" else keys,
            repeat(None) if shape.value_size == b"\x01" else values,
            repeat(()),
            stamps,
            repeat(header.timestamp_type),
            repeat(header.partition_leader_epoch),
        )
    )


# All times of one and two bytes fit.
@lru_cache(maxsize=1 << 15)
def _elapsed(field: bytes) -> int | None:
    """The number in a varint; None if the varint that starts here does not end with the field."""
    if field[-1] > 0x7F or any(byte < 0x80 for byte in field[:-1]):
        return None
    raw = _number(field)
    return (raw >> 1) ^ -(raw & 1)


def _number(varint: bytes) -> int:
    raw = 0
    for place, byte in enumerate(varint):
        raw |= (byte & 0x7F) << 7 * place
    return raw
