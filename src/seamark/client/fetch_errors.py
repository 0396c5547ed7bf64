"""Which error tells of a batch that was fetched and cannot be read."""

from __future__ import annotations

from seamark.client.errors import CorruptRecords, RecordsTooLarge
from seamark.errors import DecodeError, OverLimit
from seamark.topic_partition import TopicPartition
from seamark.wire.records.record_batch import Buffer, scan_batches


def unreadable(partition: TopicPartition, offset: int, error: DecodeError, records: Buffer) -> CorruptRecords:
    """What to tell of a batch that cannot be read, the first of ``records`` that ends behind the offset."""
    setting = _setting_of(error)
    if setting is None:
        return CorruptRecords(partition, offset, str(error))
    return RecordsTooLarge(partition, offset, error.reason, setting, _end_of_batch(records, offset))


def _setting_of(error: DecodeError) -> str | None:
    if isinstance(error, OverLimit) and error.field.endswith("header_count"):
        return "record.max.headers"
    if isinstance(error, OverLimit) and error.field == "records":
        return "decoded.batch.max.bytes"
    return None


def _end_of_batch(records: Buffer, offset: int) -> int:
    try:
        return next(header.next_offset for header, _ in scan_batches(records) if header.next_offset > offset)
    except (DecodeError, StopIteration):
        # It was read up to its records, so this does not happen; the next offset is a place to go on from as well.
        return offset + 1
