"""From the bytes of a batch straight to the records that users get, without another object in between.

One loop for the batches that producers write: lengths of one or two bytes, anything else by the general reader of
``seamark.wire``, which also explains what is wrong with unsound bytes. So the loop here only has to notice that
something is unusual, never what. A record is taken only if it ends where its own length says, and the last one must end
with the batch; a length that reaches too far, which a slice would silently cut, is noticed by that. Where records are
of one size, as numbers and fixed structures are, ``fetch_alike`` reads them by columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from seamark.client.config.config import ConsumerConfig
from seamark.client.fetch.fixed_size_records import read_alike
from seamark.client.records import Record
from seamark.topic_partition import TopicPartition
from seamark.wire.records import DEFAULT_MAX_DECOMPRESSED, MAX_HEADERS_PER_RECORD, RecordSlices
from seamark.wire.records.record_batch import BatchHeader, Buffer

# What is decoded at a time of a batch that has more: a few megabytes of objects. The loop below reads the offset deltas
# of as many records.
SLICE_RECORDS = 8_192
SLICE_HEADERS = 65_536
# What a header counts when bytes are: it is two bytes in a batch and two objects in a tuple for who has the record.
_HEADER_BYTES = 100

# When so many records were of one size, those that follow may be as well.
_RECORDS_TO_SEE = 3
# The offset deltas that are written in one byte are below this.
_SMALL_DELTAS = 64
# A time further away than this is left to the general reader, which checks that it fits.
_FAR_MS = 2**62


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What a batch may cost its reader, whoever wrote it."""

    batch_bytes: int = DEFAULT_MAX_DECOMPRESSED
    record_headers: int = MAX_HEADERS_PER_RECORD
    # What is handed out at once.
    poll_bytes: int = DEFAULT_MAX_DECOMPRESSED
    verify: bool = True

    @classmethod
    def from_config(cls, config: ConsumerConfig) -> ReadLimits:
        return cls(
            batch_bytes=config.decoded_batch_max_bytes,
            record_headers=config.record_max_headers,
            poll_bytes=config.max_poll_bytes,
            verify=config.check_crcs,
        )


class BatchReader:
    """The records of one batch in slices, so that what is in memory does not grow with what the batch unfolds to."""

    __slots__ = ("_batch", "_partition", "slice_bytes")

    def __init__(
        self, buffer: Buffer, position: int, header: BatchHeader, partition: TopicPartition, limits: ReadLimits
    ) -> None:
        self._partition = partition
        self._batch = RecordSlices(
            buffer,
            position,
            header,
            verify=limits.verify,
            max_bytes=limits.batch_bytes,
            max_headers=limits.record_headers,
        )
        # What the last slice weighs in memory, apart from the objects that every record has.
        self.slice_bytes = 0

    @property
    def is_done(self) -> bool:
        return not self._batch.left

    def next_slice(self, first_offset: int) -> list[Record]:
        """Records from ``first_offset`` on, none only at the end of the batch; DecodeError if they are unsound."""
        batch = self._batch
        while True:
            weight = batch.position + batch.header_count * _HEADER_BYTES
            records = _read(batch, self._partition)
            if records is None:
                records = _read_generally(batch, self._partition)
            if records and records[0].offset < first_offset:
                # A batch is sent whole, also when the position is inside it.
                records = [record for record in records if record.offset >= first_offset]
            if records or self.is_done:
                self.slice_bytes = batch.position + batch.header_count * _HEADER_BYTES - weight
                return records


def _read_generally(batch: RecordSlices, partition: TopicPartition) -> list[Record]:
    topic, index = partition
    epoch = batch.header.partition_leader_epoch
    return [
        Record(
            topic,
            index,
            each.offset,
            each.key,
            each.value,
            tuple(each.headers),
            each.timestamp_ms,
            each.timestamp_type,
            epoch,
        )
        for each in batch.read(SLICE_RECORDS, SLICE_HEADERS)
    ]


def _read(batch: RecordSlices, partition: TopicPartition) -> list[Record] | None:
    """The next slice of the records, or None, and nothing is taken, if anything about them is unusual.

    The lowest bit of a varint is its sign: a doubled length or delta is compared and halved once, where it is used.
    """
    topic, index = partition
    header = batch.header
    content = batch.content
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp_ms
    append_time = header.max_timestamp_ms
    kind = header.timestamp_type
    epoch = header.partition_leader_epoch
    if not -_FAR_MS < base_timestamp < _FAR_MS:
        return None
    make = Record
    records: list[Record] = []
    append = records.append
    position = batch.position
    last_delta = batch.last_delta * 2 if batch.last_delta >= 0 else -1
    left = batch.left
    # How many are left over for the next slice, and how many headers this one may have.
    rest = max(0, left - SLICE_RECORDS)
    headers_left = SLICE_HEADERS
    count = left
    look_again = count - _RECORDS_TO_SEE
    size_before = 0
    try:
        while left > rest:
            begin = position
            length = content[position]
            if length < 0x80:
                position += 1
            else:
                byte = content[position + 1]
                if byte > 0x7F:
                    return None
                length += (byte << 7) - 0x80
                position += 2
            behind = position + (length >> 1)

            # Behind the record's attributes, which mean nothing, stands its time.
            elapsed = content[position + 1]
            if elapsed < 0x80:
                position += 2
            else:
                byte = content[position + 2]
                if byte < 0x80:
                    elapsed += (byte << 7) - 0x80
                    position += 3
                else:
                    third = content[position + 3]
                    if third > 0x7F:
                        return None
                    elapsed += (byte << 7) + (third << 14) - 0x4080
                    position += 4
            delta = content[position]
            if delta < 0x80:
                position += 1
            else:
                byte = content[position + 1]
                if byte > 0x7F:
                    return None
                delta += (byte << 7) - 0x80
                position += 2
            if delta <= last_delta or delta & 1:
                return None
            last_delta = delta

            size = content[position]
            position += 1
            if size == 1:
                key = None
            elif size & 0x81:
                return None
            else:
                size >>= 1
                key = content[position : position + size]
                position += size
            size = content[position]
            position += 1
            if size == 1:
                value = None
            else:
                if size > 0x7F:
                    byte = content[position]
                    if byte > 0x7F:
                        return None
                    position += 1
                    size += (byte << 7) - 0x80
                if size & 1:
                    return None
                size >>= 1
                value = content[position : position + size]
                position += size

            if content[position]:
                headers, position = _read_headers(content, position)
                headers_left -= len(headers)
                if headers_left <= 0:
                    rest = left - 1
            else:
                headers = ()
                position += 1
            if position != behind:
                return None
            append(
                make(
                    topic,
                    index,
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
                    like = read_alike(content, begin, position, delta >> 1, left - rest, header, partition)
                    if like:
                        records += like
                        left -= len(like)
                        position += len(like) * size_before
                        last_delta = delta + 2 * len(like)
                # Behind the records whose deltas have one byte, those with two bytes may be alike again.
                look_again = count - _SMALL_DELTAS - _RECORDS_TO_SEE if left > count - _SMALL_DELTAS - 1 else -1
            size_before = position - begin
    except (IndexError, UnicodeDecodeError):
        return None
    if (position > batch.end if left else position != batch.end) or last_delta >> 1 > header.last_offset_delta:
        return None
    batch.position, batch.last_delta, batch.left = position, last_delta >> 1, left
    batch.header_count += SLICE_HEADERS - headers_left
    return records


def _read_headers(content: bytes, position: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """Headers that are few and short; for all others a position that no record ends at."""
    count = content[position]
    if count & 0x81:
        return (), -1
    position += 1
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count >> 1):
        size = content[position]
        if size & 0x81:
            return (), -1
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
            return (), -1
        size >>= 1
        headers.append((key, content[position : position + size]))
        position += size
    return tuple(headers), position
