"""From the bytes of a batch to ``Record`` objects, in pure Python.

Two readers of the same grammar. ``_read_quickly`` is one loop with the common sizes of varints written out; it knows
only sound bytes and gives up at the first thing that it does not expect. ``_read_carefully`` then reads the batch
again, field by field, and either finds the records or raises the error that names the field and the place. So the
quick loop never explains and the careful one is never fast; a property test holds them to the same answer.

Positions in errors count in the caller's buffer. Inside compressed records there is no such position: the error then
has the position where the compressed records start, and its reason says where in the decompressed ones.
"""

from __future__ import annotations

from seamark.errors import BadLength, BadText, BadValue, DecodeError, OverLimit, TrailingBytes, Truncated
from seamark.wire.records.compression import DEFAULT_MAX_DECOMPRESSED, Codec, decompress
from seamark.wire.records.record_batch import (
    HEADER_BYTES,
    INT64_MAX,
    INT64_MIN,
    SMALLEST_RECORD_BYTES,
    BatchHeader,
    Buffer,
    Headers,
    Record,
    batch_end,
    check_crc,
    read_header,
    scan_batches,
)
from seamark.wire.records.varints import read_varint, read_varlong

# A header is two bytes in a batch and a hundred as objects, and empty ones compress to nothing. No producer of messages
# writes as many to one record as the first, nor to all records of a batch as the second.
MAX_HEADERS_PER_RECORD = 10_000
MAX_HEADERS_PER_BATCH = 1 << 20
# Any time that a clock could have shown is nearer.
FAR_TIMESTAMP = 2**62


def decode_batch(
    buffer: Buffer, position: int = 0, *, verify: bool = True, max_bytes: int = DEFAULT_MAX_DECOMPRESSED
) -> list[Record]:
    """Return the records of the batch at ``position``; ``max_bytes`` bounds what compressed records may unfold to."""
    return decode_records(buffer, position, read_header(buffer, position), verify=verify, max_bytes=max_bytes)


def read_records(
    buffer: Buffer,
    position: int = 0,
    *,
    verify: bool = True,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED,
    include_control: bool = False,
) -> list[Record]:
    """Return the records of all whole batches from ``position`` on: the ``records`` field of a Fetch response.

    ``max_bytes`` holds for each batch. The markers in control batches are left out unless ``include_control`` is set.
    """
    records: list[Record] = []
    for header, start in scan_batches(buffer, position):
        if include_control or not header.is_control:
            records += decode_records(buffer, start, header, verify=verify, max_bytes=max_bytes)
    return records


def decode_records(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    verify: bool = True,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED,
) -> list[Record]:
    """``decode_batch`` for a batch whose header was read already."""
    batch = RecordSlices(buffer, position, header, verify=verify, max_bytes=max_bytes)
    records = batch.read(header.record_count, MAX_HEADERS_PER_BATCH + 1)
    if batch.header_count > MAX_HEADERS_PER_BATCH:
        field = f"records[{len(records) - 1}].header_count"
        raise OverLimit(field, batch.start, f"the batch has more than {MAX_HEADERS_PER_BATCH} headers")
    return records


class RecordSlices:
    """The records of one batch, read some at a time: a batch of a few bytes can unfold to millions of records.

    ``content`` holds the records unfolded; those from ``position`` to ``end``, ``left`` in number, are yet to be read.
    In the caller's buffer the records, perhaps compressed, begin at ``start``. ``header_count`` is that of the headers
    read so far.
    """

    __slots__ = (
        "_moved", "content", "end", "header", "header_count", "last_delta", "left", "max_headers", "position", "start"
    )  # fmt: skip

    def __init__(
        self,
        buffer: Buffer,
        position: int,
        header: BatchHeader,
        *,
        verify: bool = True,
        max_bytes: int = DEFAULT_MAX_DECOMPRESSED,
        max_headers: int = MAX_HEADERS_PER_RECORD,
    ) -> None:
        end = batch_end(buffer, position, header)
        if verify:
            check_crc(buffer, position, header)
        self.header = header
        self.left = header.record_count
        self.last_delta = -1
        self.header_count = 0
        self.max_headers = max_headers
        self.start = start = position + HEADER_BYTES
        codec = header.codec
        # Where in the caller's buffer ``content`` begins.
        self._moved = start
        self.position = 0
        if codec is Codec.NONE:
            if type(buffer) is bytes:
                self.content, self.position, self.end, self._moved = buffer, start, end, 0
            else:
                self.content, self.end = bytes(memoryview(buffer)[start:end]), end - start
        elif start == end and header.record_count == 0:
            self.content, self.end = b"", 0
        else:
            self.content = decompress(codec, memoryview(buffer)[start:end], max_bytes, start)
            self.end = len(self.content)
        if header.record_count * SMALLEST_RECORD_BYTES > self.end - self.position:
            reason = f"{header.record_count} records do not fit {self.end - self.position} bytes"
            raise self._placed(BadLength("record_count", self.position, reason))
        if not header.record_count and self.position != self.end:
            reason = f"{self.end - self.position} bytes are left behind the last record"
            raise self._placed(TrailingBytes("records", self.position, reason))

    def read(self, most: int, most_headers: int) -> list[Record]:
        """The next records, up to ``most``, and none behind the one that brings their headers to ``most_headers``.

        DecodeError, and nothing is taken, if one of them is unsound.
        """
        count = min(most, self.left)
        records = _read_quickly(self, count, most_headers)
        if records is not None:
            return records
        try:
            return _read_carefully(self, count, most_headers)
        except DecodeError as error:
            raise self._placed(error) from None

    def _placed(self, error: DecodeError) -> DecodeError:
        """The error with a position in the caller's buffer."""
        if self.header.codec is not Codec.NONE:
            reason = f"{error.reason} (byte {error.position} of the decompressed records)"
            return type(error)(error.field, self.start, reason)
        return type(error)(error.field, error.position + self._moved, error.reason)


def _read_quickly(batch: RecordSlices, count: int, headers_left: int) -> list[Record] | None:
    """Take the next records, or return None when the bytes are unsound or unusual.

    Positions only ever move forward, a record is taken only if it ends exactly where its length says, and the last
    one must end with the batch. So a length that reaches too far, which a slice would silently cut, is always
    noticed. The sign is a varint's lowest bit: an odd length or offset delta is negative.
    """
    header = batch.header
    content, position, end = batch.content, batch.position, batch.end
    most_headers = headers_left
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp_ms
    timestamp_type = header.timestamp_type
    # Then the small deltas, which are not checked one by one, cannot leave the int64 range.
    if not -FAR_TIMESTAMP < base_timestamp < FAR_TIMESTAMP:
        return None
    record_type = Record
    records: list[Record] = []
    append = records.append
    # Doubled, as the deltas are on the wire.
    previous_delta = batch.last_delta * 2 if batch.last_delta >= 0 else -1
    max_headers = batch.max_headers
    key: bytes | None
    value: bytes | None
    try:
        for _ in range(count):
            length = content[position]
            if length < 0x80:
                position += 1
            else:
                byte = content[position + 1]
                if byte < 0x80:
                    length += (byte << 7) - 0x80
                    position += 2
                else:
                    length, position = read_varint(content, position, end, "")
                    length <<= 1
            start = position

            # The record's own attributes, at ``position``, have no bit with a meaning.
            byte = content[position + 1]
            if byte < 0x80:
                position += 2
                timestamp = base_timestamp + (~(byte >> 1) if byte & 1 else byte >> 1)
            else:
                high = content[position + 2]
                if high < 0x80:
                    position += 3
                    byte += (high << 7) - 0x80
                    timestamp = base_timestamp + (~(byte >> 1) if byte & 1 else byte >> 1)
                else:
                    byte, position = read_varlong(content, position + 1, end, "")
                    timestamp = base_timestamp + byte
                    if not INT64_MIN <= timestamp <= INT64_MAX:
                        return None

            delta = content[position]
            if delta < 0x80:
                position += 1
            else:
                byte = content[position + 1]
                if byte < 0x80:
                    delta += (byte << 7) - 0x80
                    position += 2
                else:
                    delta, position = read_varint(content, position, end, "")
                    delta <<= 1
            if delta & 1 or delta <= previous_delta:
                return None
            previous_delta = delta

            byte = content[position]
            if byte & 1:
                if byte != 1:
                    return None
                position += 1
                key = None
            else:
                if byte < 0x80:
                    position += 1
                    byte >>= 1
                else:
                    byte, position = read_varint(content, position, end, "")
                key = content[position : position + byte]
                position += byte

            byte = content[position]
            if byte & 1:
                if byte != 1:
                    return None
                position += 1
                value = None
            else:
                if byte < 0x80:
                    position += 1
                    byte >>= 1
                else:
                    high = content[position + 1]
                    if high < 0x80:
                        position += 2
                        byte = (byte + (high << 7) - 0x80) >> 1
                    else:
                        byte, position = read_varint(content, position, end, "")
                value = content[position : position + byte]
                position += byte

            if content[position] == 0:
                position += 1
                headers: Headers = []
            else:
                headers, position = _read_headers_quickly(content, position, start + (length >> 1), max_headers)
                headers_left -= len(headers)
            if (position - start) << 1 != length:
                return None
            append(record_type(base_offset + (delta >> 1), timestamp, timestamp_type, key, value, headers))
            if headers_left <= 0:
                break
    except (IndexError, UnicodeDecodeError, DecodeError):
        return None
    left = batch.left - len(records)
    if (position > end if left else position != end) or previous_delta >> 1 > header.last_offset_delta:
        return None
    if timestamp_type:
        append_time = header.max_timestamp_ms
        for record in records:
            record.timestamp_ms = append_time
    batch.position, batch.last_delta, batch.left = position, previous_delta >> 1, left
    batch.header_count += most_headers - headers_left
    return records


def _read_headers_quickly(content: bytes, position: int, end: int, limit: int) -> tuple[Headers, int]:
    """``_read_headers`` for few headers with short keys; what it lets pass too far, the end of the record shows."""
    start = position
    count = content[position]
    position += 1
    headers: Headers = []
    if count & 0x81 or count >> 1 > limit:
        return _read_headers(content, start, end, limit, "")
    for _ in range(count >> 1):
        length = content[position]
        position += 1
        if length & 0x81:
            return _read_headers(content, start, end, limit, "")
        length >>= 1
        key = content[position : position + length].decode()
        position += length
        length = content[position]
        if length == 1:
            position += 1
            headers.append((key, None))
        else:
            if length & 0x81:
                length, position = read_varint(content, position, end, "")
                if length < 0:
                    return _read_headers(content, start, end, limit, "")
            else:
                position += 1
                length >>= 1
            headers.append((key, content[position : position + length]))
            position += length
    return headers, position


def _read_carefully(batch: RecordSlices, count: int, headers_left: int) -> list[Record]:
    header = batch.header
    content, position, end = batch.content, batch.position, batch.end
    most_headers = headers_left
    records: list[Record] = []
    previous_delta = batch.last_delta
    first = header.record_count - batch.left
    for number in range(first, first + count):
        name = f"records[{number}]"
        start = position
        length, position = read_varint(content, position, end, f"{name}.length")
        if length < 0:
            raise BadLength(f"{name}.length", start, f"{length} is negative")
        if length > end - position:
            raise Truncated(
                f"{name}.length", start, f"{length} bytes announced, {end - position} are left in the batch"
            )
        record_end = position + length
        if length == 0:
            raise Truncated(f"{name}.attributes", position, "the record is empty")
        position += 1

        start = position
        delta, position = read_varlong(content, position, record_end, f"{name}.timestamp_delta")
        timestamp = header.base_timestamp_ms + delta
        if not INT64_MIN <= timestamp <= INT64_MAX:
            raise BadValue(f"{name}.timestamp_delta", start, "the timestamp does not fit an int64")
        if header.timestamp_type:
            timestamp = header.max_timestamp_ms

        start = position
        delta, position = read_varint(content, position, record_end, f"{name}.offset_delta")
        if delta <= previous_delta:
            raise BadValue(f"{name}.offset_delta", start, f"{delta} does not follow {previous_delta}")
        if delta > header.last_offset_delta:
            raise BadValue(
                f"{name}.offset_delta", start, f"{delta} is beyond the batch's last, {header.last_offset_delta}"
            )
        previous_delta = delta

        key, position = _read_bytes(content, position, record_end, f"{name}.key")
        value, position = _read_bytes(content, position, record_end, f"{name}.value")
        headers, position = _read_headers(content, position, record_end, batch.max_headers, name)
        headers_left -= len(headers)
        if position != record_end:
            raise TrailingBytes(name, position, f"{record_end - position} bytes are left behind the headers")
        records.append(Record(header.base_offset + delta, timestamp, header.timestamp_type, key, value, headers))
        if headers_left <= 0:
            break
    left = batch.left - len(records)
    if not left and position != end:
        raise TrailingBytes("records", position, f"{end - position} bytes are left behind the last record")
    batch.position, batch.last_delta, batch.left = position, previous_delta, left
    batch.header_count += most_headers - headers_left
    return records


def _read_bytes(content: bytes, position: int, end: int, field: str) -> tuple[bytes | None, int]:
    start = position
    length, position = read_varint(content, position, end, f"{field}_length")
    if length == -1:
        return None, position
    if length < 0:
        raise BadLength(f"{field}_length", start, f"{length} is negative")
    if length > end - position:
        raise BadLength(f"{field}_length", start, f"{length} bytes announced, {end - position} are left in the record")
    return content[position : position + length], position + length


def _read_headers(content: bytes, position: int, end: int, limit: int, record: str) -> tuple[Headers, int]:
    start = position
    count, position = read_varint(content, position, end, f"{record}.header_count")
    # A header is two lengths at least.
    if not 0 <= count * 2 <= end - position:
        raise BadLength(f"{record}.header_count", start, f"{count} headers do not fit {end - position} bytes")
    if count > limit:
        raise OverLimit(f"{record}.header_count", start, f"the record has {count} headers, at most {limit} are read")
    headers: Headers = []
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
    return headers, position
