"""A look at the records of a batch that takes from each only what a log asks for: time, offset, key, where it lies.

Values and headers are neither copied nor looked at, so a record costs the same whatever it carries. Only the lengths
that lead to the next record are checked; a producer's batch is checked in full by ``record_walk``. ``skim_records``
tells of each record where its fields are, ``skim_keys`` collects keys and offsets alone, in half the time.
"""

from __future__ import annotations

from collections.abc import Iterator

from seamark.errors import BadLength, BadValue, DecodeError, Truncated
from seamark.wire.records.compression import Unfolded
from seamark.wire.records.varints import read_varint, read_varlong

_NULL = 1
_UNREADABLE = -1, -1

# Offset delta, timestamp delta, key, whether there is a value, and the places of: the record, its attributes, its
# offset delta, its end.
Skimmed = tuple[int, int, bytes | None, bool, int, int, int, int]


def skim_records(content: Unfolded, position: int, end: int, count: int) -> Iterator[Skimmed]:
    """Yield ``count`` records from ``position`` on, whose offsets rise; raises ``DecodeError``, also if they do not end
    at ``end``.
    """
    previous = -1
    try:
        for _ in range(count):
            # Varints of one and two bytes are read in place: nearly all are.
            start = position
            length = content[position]
            if length < 0x80:
                attributes_at = position + 1
                length >>= 1
            elif (high := content[position + 1]) < 0x80:
                attributes_at = position + 2
                length = (length & 0x7F | high << 7) >> 1
            else:
                length, attributes_at = read_varint(content, position, end, "length")
            record_end = attributes_at + length

            byte = content[attributes_at + 1]
            if byte < 0x80:
                time_delta = ~(byte >> 1) if byte & 1 else byte >> 1
                offset_at = attributes_at + 2
            else:
                time_delta, offset_at = read_varlong(content, attributes_at + 1, end, "timestamp_delta")

            delta = content[offset_at]
            if delta < 0x80:
                position = offset_at + 1
                delta = -1 if delta & 1 else delta >> 1
            elif (high := content[offset_at + 1]) < 0x80:
                position = offset_at + 2
                delta = -1 if delta & 1 else (delta & 0x7F | high << 7) >> 1
            else:
                delta, position = read_varint(content, offset_at, end, "offset_delta")
            if delta <= previous:
                raise BadValue("offset_delta", offset_at, f"{delta} does not follow {previous}")
            previous = delta

            size = content[position]
            if size == 1:
                key = None
                position += 1
            else:
                if size < 0x80:
                    position += 1
                    size = -1 if size & 1 else size >> 1
                else:
                    size, position = read_varint(content, position, end, "key_length")
                if size < 0:
                    raise BadLength("key_length", position, "it is negative")
                key = content[position : position + size]
                position += size
            if not position < record_end <= end:
                raise BadLength("length", start, f"{length} bytes do not fit into the record or the batch")
            yield delta, time_delta, key, content[position] != 1, start, attributes_at, offset_at, record_end
            position = record_end
    except IndexError:
        raise Truncated("records", position, "the bytes end inside a record") from None
    if position != end:
        raise BadLength("records", position, f"{end - position} extra bytes after the last record")


def skim_keys(
    content: Unfolded,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    previous: int,
    last_offset: int,
    keys: list[bytes],
    offsets: list[int],
    tombstones: set[int],
) -> tuple[int, int]:
    """Note keys and offsets of ``count`` records; return where they end, and their last offset.

    The offsets rise from behind ``previous`` up to ``last_offset``; records without a key are not noted, and those
    without a value are in ``tombstones`` besides. The end is -1, some being noted, when the bytes are not those of as
    many records.
    """
    add_key = keys.append
    add_offset = offsets.append
    try:
        for _ in range(count):
            # Varints of one and two bytes are read in place: nearly all are, and a call costs more than the rest.
            byte = content[position]
            if byte < 0x80:
                position += 1
                record_end = position + (byte >> 1)
            elif (high := content[position + 1]) < 0x80:
                position += 2
                record_end = position + ((byte & 0x7F | high << 7) >> 1)
            else:
                byte, position = read_varint(content, position, end, "length")
                record_end = position + byte
            if record_end > end:
                return _UNREADABLE
            # The attributes come first and mean nothing; the timestamp is skipped byte by byte.
            position += 1
            while content[position] >= 0x80:
                position += 1
            byte = content[position + 1]
            if byte < 0x80:
                position += 2
                offset = base_offset + (byte >> 1)
            elif (high := content[position + 2]) < 0x80:
                position += 3
                offset = base_offset + ((byte & 0x7F | high << 7) >> 1)
            else:
                byte, position = read_varint(content, position + 1, end, "offset_delta")
                offset = base_offset + byte
            if not previous < offset <= last_offset:
                return _UNREADABLE
            previous = offset
            byte = content[position]
            if byte < 0x80:
                position += 1
                if byte == _NULL:
                    position = record_end
                    continue
                key_end = position + (byte >> 1)
            else:
                byte, position = read_varint(content, position, end, "key_length")
                key_end = position + byte
            if not position <= key_end < record_end:
                return _UNREADABLE
            add_key(content[position:key_end])
            add_offset(offset)
            if content[key_end] == _NULL:
                tombstones.add(offset)
            position = record_end
    except (IndexError, DecodeError):
        return _UNREADABLE
    return position, previous
