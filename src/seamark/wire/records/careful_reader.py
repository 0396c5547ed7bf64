"""The careful reader of records: field by field, so that what is wrong with unsound bytes is told with its place.

It is never fast: ``fast_reader`` reads what producers write, and leaves all it does not expect to this one.
"""

from __future__ import annotations

from seamark.errors import BadLength, BadText, BadValue, OverLimit, TrailingBytes, Truncated
from seamark.wire.records.record_batch import INT64_MAX, INT64_MIN
from seamark.wire.records.record_cursor import FrozenHeaders, MakeRecord, R, RecordCursor
from seamark.wire.records.varints import read_varint, read_varlong


def read_carefully(
    cursor: RecordCursor, make: MakeRecord[R], topic: str, partition: int, most: int, headers_left: int
) -> list[R]:
    """Take the next records as ``read_quickly`` does; DecodeError, which names the field and the place, if one is
    unsound.
    """
    header = cursor.header
    content, position, end = cursor.content, cursor.position, cursor.end
    most_headers = headers_left
    records: list[R] = []
    previous_delta = cursor.last_delta
    first = header.record_count - cursor.left
    for number in range(first, first + min(most, cursor.left)):
        name = f"records[{number}]"
        start = position
        length, position = read_varint(content, position, end, f"{name}.length")
        if length < 0:
            raise BadLength(f"{name}.length", start, f"{length} is negative")
        if length > end - position:
            raise Truncated(
                f"{name}.length", start, f"a length of {length} bytes, but only {end - position} are left in the batch"
            )
        record_end = position + length
        if length == 0:
            raise Truncated(f"{name}.attributes", position, "the record is empty")
        position += 1

        start = position
        delta, position = read_varlong(content, position, record_end, f"{name}.timestamp_delta")
        timestamp = header.base_timestamp_ms + delta
        if not INT64_MIN <= timestamp <= INT64_MAX:
            raise BadValue(f"{name}.timestamp_delta", start, "the timestamp does not fit into an int64")
        if header.timestamp_type:
            timestamp = header.max_timestamp_ms

        start = position
        delta, position = read_varint(content, position, record_end, f"{name}.offset_delta")
        if delta <= previous_delta:
            raise BadValue(f"{name}.offset_delta", start, f"{delta} does not follow {previous_delta}")
        if delta > header.last_offset_delta:
            raise BadValue(
                f"{name}.offset_delta", start, f"{delta} is beyond the last of the batch, {header.last_offset_delta}"
            )
        previous_delta = delta

        key, position = _read_bytes(content, position, record_end, f"{name}.key")
        value, position = _read_bytes(content, position, record_end, f"{name}.value")
        headers, position = read_headers(content, position, record_end, cursor.max_headers, name)
        headers_left -= len(headers)
        if position != record_end:
            raise TrailingBytes(name, position, f"{record_end - position} extra bytes after the headers")
        records.append(
            make(
                topic,
                partition,
                header.base_offset + delta,
                key,
                value,
                headers,
                timestamp,
                header.timestamp_type,
                header.partition_leader_epoch,
            )
        )
        if headers_left <= 0:
            break
    left = cursor.left - len(records)
    if not left and position != end:
        raise TrailingBytes("records", position, f"{end - position} extra bytes after the last record")
    cursor.position, cursor.last_delta, cursor.left = position, previous_delta, left
    cursor.header_count += most_headers - headers_left
    return records


def _read_bytes(content: bytes, position: int, end: int, field: str) -> tuple[bytes | None, int]:
    start = position
    length, position = read_varint(content, position, end, f"{field}_length")
    if length == -1:
        return None, position
    if length < 0:
        raise BadLength(f"{field}_length", start, f"{length} is negative")
    if length > end - position:
        raise BadLength(
            f"{field}_length", start, f"a length of {length} bytes, but only {end - position} are left in the record"
        )
    return content[position : position + length], position + length


def read_headers(content: bytes, position: int, end: int, limit: int, record: str) -> tuple[FrozenHeaders, int]:
    start = position
    count, position = read_varint(content, position, end, f"{record}.header_count")
    # A header is two lengths at least.
    if not 0 <= count * 2 <= end - position:
        raise BadLength(f"{record}.header_count", start, f"{count} headers do not fit into {end - position} bytes")
    if count > limit:
        raise OverLimit(f"{record}.header_count", start, f"the record has {count} headers, at most {limit} are allowed")
    headers: list[tuple[str, bytes | None]] = []
    for number in range(count):
        name = f"{record}.headers[{number}]"
        start = position
        key, position = _read_bytes(content, position, end, f"{name}.key")
        if key is None:
            raise BadLength(f"{name}.key_length", start, "-1 is negative, and a header key cannot be null")
        try:
            text = key.decode()
        except UnicodeDecodeError:
            raise BadText(f"{name}.key", position - len(key), "the header key is not UTF-8") from None
        value, position = _read_bytes(content, position, end, f"{name}.value")
        headers.append((text, value))
    return tuple(headers), position
