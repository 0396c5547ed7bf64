"""A record, the header of the batch that holds it (magic 2), and the walk from batch to batch.

The first 61 bytes of a batch are fixed. Its length counts what follows the length field, and its CRC-32C covers what
follows the CRC field, so that a broker may set the base offset and the leader epoch without touching the rest. Older
formats (magic 0 and 1) share the first 17 bytes; they are recognised and refused.

A header that was read is sound in itself: lengths and counts are not negative, the offsets fit an int64, the codec is
known, and there are no more records than offsets. Whether the bytes behind it agree is for ``check_crc`` and the
reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from seamark.errors import BadChecksum, BadLength, BadValue, Truncated, UnknownCodec, UnknownVersion
from seamark.wire.records.compression import Codec
from seamark.wire.records.crc32c import crc32c

Buffer = bytes | bytearray | memoryview

MAGIC = 2
HEADER_BYTES = 61
LENGTH_POSITION = 8
# The batch length counts from here: the base offset and the length itself stand before it.
LENGTH_OVERHEAD = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

HEADER = Struct(">qiibIhiqqqhii")
# Of the same: base offset, batch length, attributes, last offset delta and record count.
OFFSETS_AND_COUNT = Struct(">qi9xhi30xi")
# Base offset, batch length, last offset delta and largest timestamp.
OFFSETS_AND_TIME = Struct(">qi11xi8xq")
_LENGTH_AND_MAGIC = Struct(">iib")
# Length, attributes, two deltas, two lengths and the header count: a byte each at least.
SMALLEST_RECORD_BYTES = 7

Headers = list[tuple[str, bytes | None]]


class Record:
    """One record: ``timestamp_type`` is 0 for the producer's time and 1 for the time of the append."""

    __slots__ = ("headers", "key", "offset", "timestamp_ms", "timestamp_type", "value")

    def __init__(
        self,
        offset: int,
        timestamp_ms: int = NO_TIMESTAMP,
        timestamp_type: int = 0,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Headers | None = None,
    ) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = [] if headers is None else headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp_ms == other.timestamp_ms
            and self.timestamp_type == other.timestamp_type
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    # A record is mutable (its headers are a list), so it has equality and no hash.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp_ms={self.timestamp_ms}, timestamp_type={self.timestamp_type}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )


class BatchHeader:
    """The fixed part of a batch; the offsets of its records run from ``base_offset`` to ``last_offset``."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp_ms",
        "batch_length",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp_ms",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    def __init__(
        self,
        base_offset: int,
        batch_length: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp_ms: int,
        max_timestamp_ms: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.batch_length = batch_length
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp_ms = base_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchHeader):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"BatchHeader({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"

    @property
    def size_bytes(self) -> int:
        """The whole batch with this header."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> int:
        """0: each record has its producer's time; 1: all have ``max_timestamp_ms``, the time of the append."""
        return 1 if self.attributes & LOG_APPEND_TIME else 0

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """The records are markers for readers, not messages."""
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones and markers of this batch; it takes the base timestamp's place."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON else None

    @property
    def last_offset(self) -> int:
        """The last offset that belongs to this batch, whether or not its record is still there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1


def _check_prefix(batch_length: int, magic: int, position: int) -> None:
    if magic != MAGIC:
        raise UnknownVersion(
            "magic", position + MAGIC_POSITION, f"record batch format {magic} is not supported, only 2 is"
        )
    if batch_length < HEADER_BYTES - LENGTH_OVERHEAD:
        raise BadLength(
            "batch_length",
            position + LENGTH_POSITION,
            f"batch length {batch_length} is below the minimum of {HEADER_BYTES - LENGTH_OVERHEAD}",
        )


def read_outline(buffer: Buffer, position: int = 0) -> BatchHeader:
    """As ``read_header``, checked only for where the batch lies: its size and its offsets.

    That is enough to keep a batch and pass it on, whatever its records are like.
    """
    available = len(buffer) - position
    if available < HEADER_BYTES:
        raise Truncated("batch_header", position, f"only {max(available, 0)} of {HEADER_BYTES} bytes are present")
    header = BatchHeader(*HEADER.unpack_from(buffer, position))
    _check_prefix(header.batch_length, header.magic, position)
    if header.base_offset < 0:
        raise BadValue("base_offset", position, f"{header.base_offset} is negative")
    if header.last_offset_delta < 0:
        raise BadValue("last_offset_delta", position + 23, f"{header.last_offset_delta} is negative")
    if header.base_offset > INT64_MAX - header.last_offset_delta:
        raise BadValue("last_offset_delta", position + 23, "the last offset does not fit into an int64")
    return header


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at ``position``; the records behind it need not be in the buffer."""
    header = read_outline(buffer, position)
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        raise UnknownCodec(
            "attributes",
            position + ATTRIBUTES_POSITION,
            f"compression codec {header.attributes & CODEC_MASK} is not defined",
        )
    count = header.record_count
    if count < 0:
        raise BadLength("record_count", position + 57, f"{count} is negative")
    if count > header.last_offset_delta + 1:
        raise BadLength("record_count", position + 57, f"{count} records in {header.last_offset_delta + 1} offsets")
    if (
        header.attributes & CODEC_MASK == 0
        and count * SMALLEST_RECORD_BYTES > header.batch_length + LENGTH_OVERHEAD - HEADER_BYTES
    ):
        raise BadLength(
            "record_count",
            position + 57,
            f"{count} records do not fit into {header.batch_length + LENGTH_OVERHEAD - HEADER_BYTES} bytes",
        )
    return header


def scan_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[BatchHeader, int]]:
    """Yield each whole batch's header and start.

    The last batch of a Fetch response may be cut off by the fetch size: it ends the iteration quietly, as soon as its
    length and magic are sound or not there yet. Everything else that is wrong raises.
    """
    end = len(buffer)
    while end - position > MAGIC_POSITION:
        batch_length, _, magic = _LENGTH_AND_MAGIC.unpack_from(buffer, position + LENGTH_POSITION)
        _check_prefix(batch_length, magic, position)
        if batch_length + LENGTH_OVERHEAD > end - position:
            return
        yield read_header(buffer, position), position
        position += batch_length + LENGTH_OVERHEAD


def batch_end(buffer: Buffer, position: int, header: BatchHeader) -> int:
    """Return where the batch ends; its bytes up to there are in the buffer."""
    end = position + header.size_bytes
    if end > len(buffer):
        raise Truncated("batch", position, f"only {len(buffer) - position} of {header.size_bytes} bytes are present")
    return end


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Refuse a batch whose bytes are not those that were written."""
    end = batch_end(buffer, position, header)
    computed = crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end])
    if computed != header.crc:
        raise BadChecksum("crc", position + CRC_POSITION, f"stored {header.crc:#010x}, computed {computed:#010x}")


def last_whole_batch(buffer: Buffer) -> tuple[int, int]:
    """Return the offset behind the last whole batch, -1 if there is none, and the byte behind it.

    Looks at lengths only; what is unsound ends the walk.
    """
    position, last, end = 0, -1, len(buffer)
    unpack = OFFSETS_AND_TIME.unpack_from
    while end - position >= HEADER_BYTES:
        length = unpack(buffer, position)[1]
        behind = position + LENGTH_OVERHEAD + length
        if behind > end or length < HEADER_BYTES - LENGTH_OVERHEAD:
            break
        last, position = position, behind
    if last < 0:
        return -1, 0
    base_offset, _, delta, _ = unpack(buffer, last)
    return base_offset + delta + 1, position
