"""The fast reader of records: one loop for the batches that producers write, in pure Python.

Varints of one and two bytes are read in place, because a call would cost more than the rest. The loop knows only sound
bytes: whatever it does not expect it leaves to ``careful_reader``, so it only has to notice that something is unusual,
never what. A record is taken only if it ends where its own length says, and the last one must end with the batch; a
length that reaches too far, which a slice would silently cut, is noticed by that. Where records are of one size, as
numbers and fixed structures are, ``fixed_size_reader`` reads them by columns.
"""

from __future__ import annotations

from seamark.errors import DecodeError
from seamark.wire.records.careful_reader import read_headers
from seamark.wire.records.fixed_size_reader import read_fixed_size
from seamark.wire.records.record_batch import INT64_MAX, INT64_MIN
from seamark.wire.records.record_cursor import FrozenHeaders, MakeRecord, R, RecordCursor
from seamark.wire.records.varints import read_varint, read_varlong

# When so many records were of one size, those that follow may be as well.
_RECORDS_TO_SEE = 3
# The offset deltas that are written in one byte are below this.
_SMALL_DELTAS = 64
# Any time that a clock could have shown is nearer; one that is further away is left to the careful reader.
_FAR_MS = 2**62


def read_quickly(
    cursor: RecordCursor, make: MakeRecord[R], topic: str, partition: int, most: int, most_headers: int
) -> list[R] | None:
    """Take the next records, up to ``most``, and none behind the one that brings their headers to ``most_headers``.

    None, and nothing is taken, if anything about them is unusual. The lowest bit of a varint is its sign: a doubled
    length or delta is compared as it is, and halved once, where it is used.
    """
    header = cursor.header
    content = cursor.content
    end = cursor.end
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp_ms
    append_time = header.max_timestamp_ms
    kind = header.timestamp_type
    epoch = header.partition_leader_epoch
    if not -_FAR_MS < base_timestamp < _FAR_MS:
        return None
    records: list[R] = []
    append = records.append
    position = cursor.position
    last_delta = cursor.last_delta * 2 if cursor.last_delta >= 0 else -1
    left = count = cursor.left
    # How many are left over for the next call, and how many headers this one may have.
    rest = max(0, left - most) if most_headers > 0 else left - 1
    headers_left = most_headers
    max_headers = cursor.max_headers
    look_again = count - _RECORDS_TO_SEE
    size_before = 0
    key: bytes | None
    value: bytes | None
    headers: FrozenHeaders
    try:
        while left > rest:
            begin = position
            length = content[position]
            if length < 0x80:
                start = position + 1
            elif (byte := content[position + 1]) < 0x80:
                length += (byte << 7) - 0x80
                start = position + 2
            else:
                length, start = read_varint(content, position, end, "")
                length <<= 1

            # Behind the record's attributes, which mean nothing, stands its time.
            elapsed = content[start + 1]
            if elapsed < 0x80:
                position = start + 2
            elif (byte := content[start + 2]) < 0x80:
                elapsed += (byte << 7) - 0x80
                position = start + 3
            elif (third := content[start + 3]) < 0x80:
                elapsed += (byte << 7) + (third << 14) - 0x4080
                position = start + 4
            else:
                elapsed, position = read_varlong(content, start + 1, end, "")
                if not INT64_MIN <= base_timestamp + elapsed <= INT64_MAX:
                    return None
                elapsed = elapsed << 1 if elapsed >= 0 else (~elapsed << 1) + 1

            delta = content[position]
            if delta < 0x80:
                position += 1
            elif (byte := content[position + 1]) < 0x80:
                delta += (byte << 7) - 0x80
                position += 2
            else:
                delta, position = read_varint(content, position, end, "")
                delta <<= 1
            if delta <= last_delta or delta & 1:
                return None
            last_delta = delta

            size = content[position]
            position += 1
            if size == 1:
                key = None
            else:
                if size < 0x80:
                    if size & 1:
                        return None
                    size >>= 1
                else:
                    size, position = read_varint(content, position - 1, end, "")
                    if size < 0:
                        return None
                key = content[position : position + size]
                position += size

            size = content[position]
            position += 1
            if size == 1:
                value = None
            else:
                if size > 0x7F:
                    byte = content[position]
                    if byte < 0x80:
                        position += 1
                        size += (byte << 7) - 0x80
                    else:
                        size, position = read_varint(content, position - 1, end, "")
                        size = size << 1 if size >= 0 else 1
                if size & 1:
                    return None
                size >>= 1
                value = content[position : position + size]
                position += size

            if content[position]:
                headers, position = _read_headers_quickly(content, position, end, max_headers)
                headers_left -= len(headers)
                if headers_left <= 0:
                    rest = left - 1
            else:
                headers = ()
                position += 1
            if (position - start) << 1 != length:
                return None
            append(
                make(
                    topic,
                    partition,
                    base_offset + (delta >> 1),
                    key,
                    value,
                    headers,
                    append_time if kind else base_timestamp + (~(elapsed >> 1) if elapsed & 1 else elapsed >> 1),
                    kind,
                    epoch,
                )
            )
            left -= 1
            if left == look_again and left > rest:
                if position - begin == size_before:
                    like = read_fixed_size(
                        content, begin, position, delta >> 1, left - rest, header, make, topic, partition
                    )
                    if like:
                        records += like
                        left -= len(like)
                        position += len(like) * size_before
                        last_delta = delta + 2 * len(like)
                # Behind the records whose deltas have one byte, those with two bytes may be alike again.
                look_again = count - _SMALL_DELTAS - _RECORDS_TO_SEE if left > count - _SMALL_DELTAS - 1 else -1
            size_before = position - begin
    except (IndexError, UnicodeDecodeError, DecodeError):
        return None
    if (position > end if left else position != end) or last_delta >> 1 > header.last_offset_delta:
        return None
    cursor.position, cursor.last_delta, cursor.left = position, last_delta >> 1, left
    cursor.header_count += most_headers - headers_left
    return records


def _read_headers_quickly(content: bytes, position: int, end: int, limit: int) -> tuple[FrozenHeaders, int]:
    """``read_headers`` for few headers with short keys; what it lets pass too far, the end of the record shows."""
    count = content[position]
    start = position
    position += 1
    if count & 0x81 or count >> 1 > limit:
        return read_headers(content, start, end, limit, "")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count >> 1):
        size = content[position]
        if size & 0x81:
            return read_headers(content, start, end, limit, "")
        size >>= 1
        position += 1
        key = content[position : position + size].decode()
        position += size
        size = content[position]
        position += 1
        if size == 1:
            headers.append((key, None))
            continue
        if size & 0x81:
            size, position = read_varint(content, position - 1, end, "")
            if size < 0:
                return read_headers(content, start, end, limit, "")
        else:
            size >>= 1
        headers.append((key, content[position : position + size]))
        position += size
    return tuple(headers), position
