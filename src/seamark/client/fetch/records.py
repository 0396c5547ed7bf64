"""The records of a batch as users get them, made straight from its bytes and a slice at a time.

``seamark.wire`` reads the bytes; here is what a batch may cost its reader.
"""

from __future__ import annotations

from dataclasses import dataclass

from seamark.client.config.config import ConsumerConfig
from seamark.client.records import Record
from seamark.topic_partition import TopicPartition
from seamark.wire.records import DEFAULT_MAX_DECOMPRESSED, MAX_HEADERS_PER_RECORD, RecordSlices
from seamark.wire.records.record_batch import BatchHeader, Buffer

# What is decoded at a time of a batch that has more: a few megabytes of objects.
SLICE_RECORDS = 8_192
SLICE_HEADERS = 65_536
# What a header counts when bytes are: it is two bytes in a batch and two objects in a tuple for who has the record.
_HEADER_BYTES = 100


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
        topic, index = self._partition
        while True:
            weight = batch.position + batch.header_count * _HEADER_BYTES
            records = batch.read_as(Record, topic, index, SLICE_RECORDS, SLICE_HEADERS)
            if records and records[0].offset < first_offset:
                # A batch is sent whole, also when the position is inside it.
                records = [record for record in records if record.offset >= first_offset]
            if records or self.is_done:
                self.slice_bytes = batch.position + batch.header_count * _HEADER_BYTES - weight
                return records
