"""A batch on its way to one partition: records are collected as columns, and encoded when the batch is sealed.

Adding is the hot path of a producer, so it only appends to lists; ``byte_count`` is what the batch takes at most. A
sealed batch keeps its bytes for retries; a new identity or sequence seals it again.

Owner: records are added under the producer's lock; a batch that was taken to be sent belongs to the I/O thread.
"""

from __future__ import annotations

from array import array
from typing import cast

from seamark.client.producer.delivery import BatchOutcome, DeliveryCallback
from seamark.topic_partition import TopicPartition
from seamark.wire.records import decode_batch
from seamark.wire.records.column_writer import (
    SMALL_CONTENT,
    SMALL_OVERHEAD,
    TWO_BYTES,
    Headers,
    Values,
    encode_columns,
    encode_each,
    record_bound,
)
from seamark.wire.records.compression import Codec, compress
from seamark.wire.records.record_batch import ATTRIBUTES_POSITION, CODEC_MASK, HEADER_BYTES
from seamark.wire.records.record_writer import encode_headers, frame_batch

NO_SEQUENCE = -1
NO_PRODUCER = (-1, -1)


class ProducerBatch:
    __slots__ = (
        "_has_columns",
        "_headers",
        "_keys",
        "_sealed",
        "_timestamps",
        "_uniform_count",
        "_uniform_size",
        "_values",
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
        self._keys: list[bytes | None] | None = None
        self._values: list[bytes | None] = []
        # Encoded, of the records that have any.
        self._headers: dict[int, bytes] = {}
        # Records without nulls and headers, in the order of their times, keys for all or for none.
        self._has_columns = True
        # How many of the records are known to have values of one length; others may have it too.
        self._uniform_size = -1
        self._uniform_count = 0
        self._sealed: bytes | None = None

    def append(self, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int) -> int:
        """Add one record; the answer is its place in the batch."""
        place = self.count
        content = (0 if key is None else len(key)) + (0 if value is None else len(value))
        if headers:
            encoded = encode_headers(headers)
            content += len(encoded)
            self._headers[place] = encoded
            self._has_columns = False
        if not place:
            self.base_timestamp_ms = self.max_timestamp_ms = timestamp_ms
            if key is not None:
                self._keys = []
        elif timestamp_ms >= self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
        else:
            self._has_columns = False
        if value is None or (key is None) is not (self._keys is None):
            self._has_columns = False
        if self._keys is None and key is not None:
            self._keys = [None] * place
        if self._keys is not None:
            self._keys.append(key)
        self._values.append(value)
        self._timestamps.append(timestamp_ms)
        self.count = place + 1
        self.byte_count += record_bound(content, place, timestamp_ms - self.base_timestamp_ms)
        return place

    @property
    def has_keys(self) -> bool:
        return self._keys is not None

    def append_plain(self, value: bytes, timestamp_ms: int, most_bytes: int) -> int:
        """Add a small value without key and headers to a batch that is open and not empty, if that is all it takes.

        The answer is how many bytes the batch grew; 0 if the record is not added, because the batch would have more
        than ``most_bytes`` or the record is not so simple.
        """
        size = len(value) + SMALL_OVERHEAD
        place = self.count
        if (
            self.is_closed
            or self.byte_count + size > most_bytes
            or size > SMALL_CONTENT
            or place >= TWO_BYTES
            or self._keys is not None
            or timestamp_ms < self.max_timestamp_ms
            or timestamp_ms - self.base_timestamp_ms >= TWO_BYTES
        ):
            return 0
        self.max_timestamp_ms = timestamp_ms
        self._values.append(value)
        self._timestamps.append(timestamp_ms)
        self.count = place + 1
        self.byte_count += size
        self.reserved_bytes += size
        return size

    def append_many(self, some: Values, start: int, timestamp_ms: int, room: int) -> tuple[int, int]:
        """Add as many values from ``start`` on as fit into ``room`` bytes, one at least: its place, and how many."""
        first, value_size = self.count, some.each
        elapsed_ms = timestamp_ms - self.base_timestamp_ms if first else 0
        count, bound = some.fitting(start, room, first, elapsed_ms)
        values = some.values[start : start + count]
        if not first:
            self.base_timestamp_ms = self.max_timestamp_ms = timestamp_ms
            self._uniform_size = -1 if value_size is None else value_size
        if value_size == self._uniform_size:
            self._uniform_count += len(values)
        if timestamp_ms < self.max_timestamp_ms or self._keys is not None:
            self._has_columns = False
        self.max_timestamp_ms = max(self.max_timestamp_ms, timestamp_ms)
        if self._keys is not None:
            self._keys += [None] * len(values)
        self._values += values
        self._timestamps += array("q", (timestamp_ms,)) * count
        self.count = first + count
        self.byte_count += bound
        return first, count

    # -- on the wire

    def set_sequence(self, identity: tuple[int, int], base_sequence: int) -> None:
        if (identity, base_sequence) != (self.identity, self.base_sequence):
            self.identity, self.base_sequence = identity, base_sequence
            if self._sealed is not None:
                self._sealed = self._with_header(
                    self._sealed[HEADER_BYTES:], self._sealed[ATTRIBUTES_POSITION + 1] & CODEC_MASK
                )

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    def sealed(self, codec: Codec, level: int | None = None) -> bytes:
        """The batch as it is sent; made once."""
        self.is_closed = True
        if self._sealed is None:
            content = b"".join(self._encoded())
            self._keys, self._values, self._headers = None, [], {}
            if codec is not Codec.NONE:
                content = compress(codec, content, level)
            self._sealed = self._with_header(content, codec)
        return self._sealed

    def _encoded(self) -> list[bytes]:
        if self._has_columns:
            keys, values = cast("list[bytes] | None", self._keys), cast("list[bytes]", self._values)
            size = self._uniform_size if self._uniform_count == self.count else None
            return encode_columns(keys, values, size, self._timestamps, self.base_timestamp_ms)
        return encode_each(self._keys, self._values, self._headers, self._timestamps, self.base_timestamp_ms)

    def _with_header(self, content: bytes, codec: int) -> bytes:
        return frame_batch(
            content,
            codec,
            self.count - 1,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            *self.identity,
            self.base_sequence,
            self.count,
        )

    def release(self) -> None:
        """Give up the bytes: the outcome is known."""
        self._sealed = None
        self._keys, self._values, self._headers = None, [], {}

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


def _advanced(sequence: int, count: int) -> int:
    """Sequences are 31 bits wide and start at 0 again behind the last."""
    return (sequence + count) & 0x7FFFFFFF
