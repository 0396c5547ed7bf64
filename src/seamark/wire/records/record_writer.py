"""From ``Record`` objects to the bytes of a batch, and the few rewrites that a broker makes to a finished one.

Offsets come from the records: they rise, and they may have gaps, because compaction keeps a record's offset. A value
that the format cannot carry raises ``EncodeError``; nothing is cut or wrapped. What is written here ``record_reader``
reads back equal, except that under log-append time every record has the batch's largest timestamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error

from seamark.errors import EncodeError, NotNullable, OutOfRange
from seamark.wire.records.compression import Codec, compress
from seamark.wire.records.crc32c import crc32c
from seamark.wire.records.record_batch import (
    ATTRIBUTES_POSITION,
    CONTROL,
    CRC_POSITION,
    DELETE_HORIZON,
    HEADER_BYTES,
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_TIMESTAMP_POSITION,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    Record,
    read_header,
)
from seamark.wire.records.varints import encode_varint, small_varints

_BEFORE_ATTRIBUTES = Struct(">qiibI")
_CRC = Struct(">I")
_FROM_ATTRIBUTES = Struct(">hiqqqhii")
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_LEADER_EPOCH_POSITION = 12

_NULL = encode_varint(-1)


def encode_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    timestamp_type: int = 0,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    base_offset: int | None = None,
    last_offset: int | None = None,
    delete_horizon_ms: int | None = None,
    max_timestamp_ms: int | None = None,
) -> bytes:
    """Return one batch with these records.

    ``base_offset`` and ``last_offset`` widen the batch beyond its records, down to a batch without any; without them
    the first and the last record are the ends. ``max_timestamp_ms`` replaces the largest timestamp of the records:
    the time of the append under ``timestamp_type`` 1, or what a batch had before compaction took its records.
    """
    first, last = _offset_range(records, base_offset, last_offset)
    if records:
        timestamps = [record.timestamp_ms for record in records]
        for extreme in (min(timestamps), max(timestamps)):
            if not INT64_MIN <= extreme <= INT64_MAX:
                raise OutOfRange("timestamp_ms", extreme, "it must be a 64-bit integer")
        base_timestamp = timestamps[0] if delete_horizon_ms is None else delete_horizon_ms
        max_timestamp = max(timestamps) if max_timestamp_ms is None else max_timestamp_ms
        content = _encode_records(records, first, base_timestamp)
        if codec is not Codec.NONE:
            content = compress(codec, content)
    else:
        # Nothing to compress, and no reader should have to unfold an empty stream.
        codec, content = Codec.NONE, b""
        base_timestamp = NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms
        max_timestamp = NO_TIMESTAMP if max_timestamp_ms is None else max_timestamp_ms
    if timestamp_type not in (0, 1):
        raise OutOfRange("timestamp_type", timestamp_type, "it must be 0 (create time) or 1 (log append time)")
    attributes = (
        int(codec)
        | (LOG_APPEND_TIME if timestamp_type else 0)
        | (TRANSACTIONAL if is_transactional else 0)
        | (CONTROL if is_control else 0)
        | (DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    if len(content) > INT32_MAX - HEADER_BYTES:
        size = HEADER_BYTES - LENGTH_OVERHEAD + len(content)
        raise OutOfRange("batch_length", size, "a batch must be smaller than 2 GiB")
    try:
        return frame_batch(
            content,
            attributes,
            last - first,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
            first,
            partition_leader_epoch,
        )
    except struct_error:
        raise _out_of_range(
            ("base_offset", first, 64),
            ("partition_leader_epoch", partition_leader_epoch, 32),
            ("base_timestamp_ms", base_timestamp, 64),
            ("max_timestamp_ms", max_timestamp, 64),
            ("producer_id", producer_id, 64),
            ("producer_epoch", producer_epoch, 16),
            ("base_sequence", base_sequence, 32),
        ) from None


def frame_batch(
    content: bytes,
    attributes: int,
    last_offset_delta: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Return the batch with the records in ``content``, which are compressed already if ``attributes`` say so."""
    covered = _FROM_ATTRIBUTES.pack(
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    length = HEADER_BYTES - LENGTH_OVERHEAD + len(content)
    crc = crc32c(content, crc32c(covered))
    before = _BEFORE_ATTRIBUTES.pack(base_offset, length, partition_leader_epoch, MAGIC, crc)
    return b"".join((before, covered, content))


def rebase(batch: Buffer, base_offset: int, partition_leader_epoch: int) -> bytes:
    """Return ``batch`` with the offset and epoch that a broker assigns: all of it stands before the CRC's cover."""
    header = read_header(batch)
    if not 0 <= base_offset <= INT64_MAX - header.last_offset_delta:
        raise OutOfRange("base_offset", base_offset, "the batch's offsets must be from 0 to 2**63 - 1")
    view = memoryview(batch)
    try:
        epoch = _LEADER_EPOCH.pack(partition_leader_epoch)
    except struct_error:
        raise _out_of_range(("partition_leader_epoch", partition_leader_epoch, 32)) from None
    return b"".join((_BASE_OFFSET.pack(base_offset), view[8:_LEADER_EPOCH_POSITION], epoch, view[16:]))


def replace_records(
    header: BatchHeader,
    content: bytes,
    *,
    record_count: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    attributes: int,
) -> bytes:
    """Return the batch of ``header`` with other records: ``content``, as it is before it is compressed."""
    return frame_batch(
        compress(header.codec, content),
        attributes,
        header.last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        record_count,
        header.base_offset,
        header.partition_leader_epoch,
    )


def restamp(batch: Buffer, append_time_ms: int) -> bytes:
    """Return ``batch`` under log-append time, as a broker stores it when the topic has the broker's timestamps."""
    header = read_header(batch)
    rewritten = bytearray(batch)
    try:
        _BASE_OFFSET.pack_into(rewritten, MAX_TIMESTAMP_POSITION, append_time_ms)
    except struct_error:
        raise _out_of_range(("max_timestamp_ms", append_time_ms, 64)) from None
    # The sign bit of the attributes is theirs as well: only the low byte has the flag.
    rewritten[ATTRIBUTES_POSITION + 1] |= LOG_APPEND_TIME
    covered = memoryview(rewritten)[ATTRIBUTES_POSITION : header.size_bytes]
    _CRC.pack_into(rewritten, CRC_POSITION, crc32c(covered))
    return bytes(rewritten)


def restamped_start(attributes: int, timestamp_delta: int, bytes_behind: int) -> bytes:
    """Return a record up to its offset delta, with another timestamp delta; ``bytes_behind`` it has from there on."""
    stamp = encode_varint(timestamp_delta)
    return encode_varint(1 + len(stamp) + bytes_behind) + bytes((attributes,)) + stamp


def _out_of_range(*fields: tuple[str, object, int]) -> EncodeError:
    for name, value, bits in fields:
        if not isinstance(value, int) or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return OutOfRange(name, value, f"it must be a {bits}-bit integer")
    raise AssertionError("struct rejected a value that fits its field")


def _offset_range(records: Sequence[Record], base_offset: int | None, last_offset: int | None) -> tuple[int, int]:
    if records:
        first = records[0].offset if base_offset is None else base_offset
        last = records[-1].offset if last_offset is None else last_offset
        if first > records[0].offset:
            raise OutOfRange("base_offset", first, f"the first record has the smaller offset {records[0].offset}")
        if last < records[-1].offset:
            raise OutOfRange("last_offset", last, f"the last record has the larger offset {records[-1].offset}")
    elif base_offset is None or last_offset is None:
        raise EncodeError("records", records, "a batch without records requires base_offset and last_offset")
    else:
        first, last = base_offset, last_offset
    if not 0 <= first <= INT64_MAX:
        raise OutOfRange("base_offset", first, "an offset must be from 0 to 2**63 - 1")
    if not first <= last <= min(first + INT32_MAX, INT64_MAX):
        raise OutOfRange("last_offset", last, f"it must be from {first} up to {min(first + INT32_MAX, INT64_MAX)}")
    return first, last


def _encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes:
    small = small_varints()
    small_count = len(small)
    parts: list[bytes] = []
    append = parts.append
    previous = base_offset - 1
    for record in records:
        offset = record.offset
        if offset <= previous:
            raise OutOfRange("offset", offset, f"offsets must increase, and the previous one is {previous}")
        previous = offset
        delta = record.timestamp_ms - base_timestamp
        if 0 <= delta < small_count:
            body = b"\x00" + small[delta]
        elif INT64_MIN <= delta <= INT64_MAX:
            body = b"\x00" + encode_varint(delta)
        else:
            raise OutOfRange("timestamp_ms", record.timestamp_ms, "it is too far from the batch's first timestamp")
        delta = offset - base_offset
        body += small[delta] if delta < small_count else encode_varint(delta)
        try:
            for content in (record.key, record.value):
                if content is None:
                    body += _NULL
                else:
                    size = len(content)
                    body += (small[size] if size < small_count else encode_varint(size)) + content
        except TypeError:
            raise _not_bytes(record) from None
        body += encode_headers(record.headers) if record.headers else b"\x00"
        size = len(body)
        append(small[size] if size < small_count else encode_varint(size))
        append(body)
    return b"".join(parts)


def _not_bytes(record: Record) -> EncodeError:
    field = "value" if record.key is None or isinstance(record.key, bytes | bytearray | memoryview) else "key"
    return EncodeError(field, getattr(record, field), "it must be bytes or None")


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Return the headers of a record with their count."""
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        if key is None:
            raise NotNullable("header key", key, "a header must have a key, which may be empty")
        if not isinstance(key, str):
            raise EncodeError("header key", key, "it must be a string")
        try:
            text = key.encode()
        except UnicodeEncodeError:
            raise EncodeError("header key", key, "it cannot be encoded as UTF-8") from None
        parts += (encode_varint(len(text)), text)
        if value is None:
            parts.append(_NULL)
        elif isinstance(value, bytes | bytearray | memoryview):
            parts += (encode_varint(len(value)), value)
        else:
            raise EncodeError("header value", value, "it must be bytes or None")
    return b"".join(parts)
