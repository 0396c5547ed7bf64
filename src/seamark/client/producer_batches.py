"""A batch on its way to one partition: records are encoded as they are added, the header when the batch is sealed.

Adding is the hot path of a producer, so it works on pieces that are joined once. ``append_many`` encodes values without
keys by whole columns. A sealed batch keeps its bytes for retries; a new identity or sequence seals it again.

Invariant: the bytes added are exactly those of Kafka's record format, with offsets 0, 1, 2, … in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, repeat
from struct import Struct

from seamark.client.delivery import BatchOutcome, DeliveryCallback
from seamark.errors import EncodeError
from seamark.topic_partition import TopicPartition
from seamark.wire.compression import Codec, compress
from seamark.wire.record_batch import HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, crc32c_function
from seamark.wire.records import decode_batch
from seamark.wire.varints import encode_varint, small_varints

Headers = Sequence[tuple[str, bytes | None]]

NO_SEQUENCE = -1
NO_PRODUCER = (-1, -1)
# Length, attributes, two deltas, two lengths and the number of headers, each as large as it can be for one record.
MAX_RECORD_OVERHEAD = 21
_BEFORE_CRC = Struct(">qiibI")
_FROM_ATTRIBUTES = Struct(">hiqqqhii")
_NULL = encode_varint(-1)
# A batch of Kafka's default size has fewer records than this.
_TABLE_ROWS = 2048


def headers_size(headers: Headers) -> int:
    """An upper bound for the encoded headers, their count not included."""
    return sum(10 + 4 * len(name) + (0 if value is None else len(value)) for name, value in headers)


def encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        if not isinstance(name, str):
            raise EncodeError("header key", name, "it must be text")
        text = name.encode()
        parts += (encode_varint(len(text)), text)
        if value is None:
            parts.append(_NULL)
        elif isinstance(value, bytes | bytearray | memoryview):
            parts += (encode_varint(len(value)), bytes(value))
        else:
            raise EncodeError("header value", value, "it must be bytes or None")
    return b"".join(parts)


class ProducerBatch:
    __slots__ = (
        "_parts",
        "_sealed",
        "_timestamps",
        "attempts",
        "base_sequence",
        "base_timestamp_ms",
        "byte_count",
        "callbacks",
        "count",
        "created_ms",
        "identity",
        "is_closed",
        "last_error",
        "max_timestamp_ms",
        "outcome",
        "partition",
        "place",
        "reserved_bytes",
        "retry_at_ms",
    )

    def __init__(self, partition: TopicPartition, now_ms: int, place: tuple[int, ...] = ()) -> None:
        self.partition = partition
        # Its place among all batches of the partition; the halves of a batch stand in its place.
        self.place = place
        self.outcome = BatchOutcome(partition)
        self._timestamps = self.outcome.timestamps
        self.callbacks: list[tuple[int, DeliveryCallback]] = []
        self.created_ms = now_ms
        self.count = 0
        self.byte_count = HEADER_BYTES
        # What it takes of buffer.memory.
        self.reserved_bytes = 0
        self.base_timestamp_ms = 0
        self.max_timestamp_ms = -1
        # No record is added to a closed batch.
        self.is_closed = False
        self.attempts = 0
        self.retry_at_ms = 0
        self.last_error: Exception | None = None
        self.identity = NO_PRODUCER
        self.base_sequence = NO_SEQUENCE
        self._parts: list[bytes] = []
        self._sealed: bytes | None = None

    def append(self, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int) -> int:
        """Add one record; the answer is its place in the batch."""
        small = small_varints()
        index = self.count
        if index:
            delta = timestamp_ms - self.base_timestamp_ms
            if timestamp_ms > self.max_timestamp_ms:
                self.max_timestamp_ms = timestamp_ms
        else:
            self.base_timestamp_ms = self.max_timestamp_ms = timestamp_ms
            delta = 0
        limit = len(small)
        elapsed = small[delta] if 0 <= delta < limit else encode_varint(delta)
        place = small[index] if index < limit else encode_varint(index)
        if key is None:
            key, key_size = b"", _NULL
        else:
            size = len(key)
            key_size = small[size] if size < limit else encode_varint(size)
        if value is None:
            value, value_size = b"", _NULL
        else:
            size = len(value)
            value_size = small[size] if size < limit else encode_varint(size)
        tail = encode_headers(headers) if headers else b"\x00"
        size = 1 + len(elapsed) + len(place) + len(key_size) + len(key) + len(value_size) + len(value) + len(tail)
        length = small[size] if size < limit else encode_varint(size)
        self._parts += (length, b"\x00", elapsed, place, key_size, key, value_size, value, tail)
        self._timestamps.append(timestamp_ms)
        self.count = index + 1
        self.byte_count += size + len(length)
        return index

    def append_many(self, values: Sequence[bytes], timestamp_ms: int) -> int:
        """Add values without keys and headers; the answer is the first one's place."""
        first = self.count
        if not first:
            self.base_timestamp_ms = self.max_timestamp_ms = timestamp_ms
        self.max_timestamp_ms = max(self.max_timestamp_ms, timestamp_ms)
        elapsed = encode_varint(timestamp_ms - self.base_timestamp_ms)
        start, end = first, first + len(values)
        while start < end:
            # Records whose places are written in equally many bytes differ only in their values.
            width = len(encode_varint(start))
            stop = min(end, 1 << (7 * width - 1))
            self._append_run(values[start - first : stop - first], start, width, elapsed)
            start = stop
        self._timestamps += repeat(timestamp_ms, len(values))
        self.count = end
        return first

    def _append_run(self, values: Sequence[bytes], start: int, width: int, elapsed: bytes) -> None:
        sizes = set(map(len, values))
        end = start + len(values)
        if len(sizes) == 1 and end <= _TABLE_ROWS:
            before = _before_values(sizes.pop(), elapsed)[start:end]
            # What stands before a value begins with the last byte of the record before, which the first one has not.
            content = b"".join(chain.from_iterable(zip(before, values, strict=True)))[1:] + b"\x00"
        else:
            content = _encode_values(values, start, width, elapsed)
        self._parts.append(content)
        self.byte_count += len(content)

    # -- on the wire

    def set_sequence(self, identity: tuple[int, int], base_sequence: int) -> None:
        if (identity, base_sequence) != (self.identity, self.base_sequence):
            self.identity, self.base_sequence = identity, base_sequence
            if self._sealed is not None:
                self._sealed = self._with_header(self._sealed[HEADER_BYTES:], self._sealed[22] & 0x07)

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    def sealed(self, codec: Codec, level: int | None = None) -> bytes:
        """The batch as it is sent; made once."""
        self.is_closed = True
        if self._sealed is None:
            content = b"".join(self._parts)
            self._parts = []
            used = codec
            if codec is not Codec.NONE:
                content = _compressed(codec, content, level)
            self._sealed = self._with_header(content, used)
        return self._sealed

    def _with_header(self, content: bytes, codec: int) -> bytes:
        fixed = _FROM_ATTRIBUTES.pack(
            codec,
            self.count - 1,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            *self.identity,
            self.base_sequence,
            self.count,
        )
        covered = fixed + content
        length = HEADER_BYTES - LENGTH_OVERHEAD + len(content)
        return _BEFORE_CRC.pack(0, length, -1, MAGIC, crc32c_function()(covered)) + covered

    def release(self) -> None:
        """Give up the bytes: the outcome is known."""
        self._sealed = None
        self._parts = []

    def split(self, now_ms: int) -> list[ProducerBatch]:
        """Two batches in place of one that the broker finds too large, with the sequences it had."""
        assert self._sealed is not None
        records = decode_batch(self._sealed, verify=False)
        middle = len(records) // 2
        halves = []
        for number, (first, some) in enumerate(((0, records[:middle]), (middle, records[middle:]))):
            half = ProducerBatch(self.partition, self.created_ms, (*self.place, number))
            for record in some:
                half.append(record.key, record.value, record.headers, record.timestamp_ms)
            half.callbacks = [
                (index - first, callback) for index, callback in self.callbacks if first <= index < first + len(some)
            ]
            half.attempts = self.attempts
            half.retry_at_ms = now_ms
            half.is_closed = True
            if self.has_sequence:
                half.set_sequence(self.identity, _advanced(self.base_sequence, first))
            halves.append(half)
        self.outcome.become(middle, halves[0].outcome, halves[1].outcome)
        halves[0].reserved_bytes = self.reserved_bytes // 2
        halves[1].reserved_bytes = self.reserved_bytes - halves[0].reserved_bytes
        return halves


@lru_cache(maxsize=32)
def _before_values(size: int, elapsed: bytes) -> tuple[bytes, ...]:
    """All that stands before the value of each record of a batch, for values of one length."""
    value_size = encode_varint(size)
    rows = []
    for place in map(encode_varint, range(_TABLE_ROWS)):
        body = 1 + len(elapsed) + len(place) + 1 + len(value_size) + size + 1
        rows.append(b"\x00" + encode_varint(body) + b"\x00" + elapsed + place + _NULL + value_size)
    return tuple(rows)


def _encode_values(values: Sequence[bytes], start: int, width: int, elapsed: bytes) -> bytes:
    """Records with places of one width and values of any lengths."""
    sizes = list(map(len, values))
    heads: dict[int, bytes] = {}
    middles: dict[int, bytes] = {}
    for size in set(sizes):
        value_size = encode_varint(size)
        body = 1 + len(elapsed) + width + 1 + len(value_size) + size + 1
        heads[size] = encode_varint(body) + b"\x00" + elapsed
        middles[size] = _NULL + value_size
    end = start + len(values)
    small = small_varints()
    places = small[start:end] if end <= len(small) else tuple(map(encode_varint, range(start, end)))
    # The last column is endless.
    pieces = zip(
        map(heads.__getitem__, sizes), places, map(middles.__getitem__, sizes), values, repeat(b"\x00"), strict=False
    )
    return b"".join(chain.from_iterable(pieces))


def _advanced(sequence: int, count: int) -> int:
    """Sequences are 31 bits wide and start at 0 again behind the last."""
    return (sequence + count) & 0x7FFFFFFF


def _compressed(codec: Codec, content: bytes, level: int | None) -> bytes:
    if level is not None and codec is Codec.GZIP:
        import zlib

        return zlib.compress(content, level, 31)
    if level is not None and codec is Codec.ZSTD:
        import cramjam

        return bytes(cramjam.zstd.compress(content, level=level))
    return compress(codec, content)
