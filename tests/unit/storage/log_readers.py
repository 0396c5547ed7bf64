"""What tests ask of a log: batches to put in, and all records to get out."""

from __future__ import annotations

from seamark.storage import Log
from seamark.wire.records import Record, decode_batch, encode_batch, scan_batches


def batch(*records: tuple[bytes | None, bytes | None] | Record, timestamp_ms: int = 1000, **options) -> bytes:
    """Return one batch of (key, value) pairs or records."""
    made = [
        record if isinstance(record, Record) else Record(number, timestamp_ms, key=record[0], value=record[1])
        for number, record in enumerate(records)
    ]
    return encode_batch(made, **options)


def read_all(log: Log, *, max_bytes: int = 1 << 20, from_offset: int | None = None) -> list[Record]:
    """Return every record from the log's start on, read as a consumer would: on from the end of each batch."""
    offset = log.log_start if from_offset is None else from_offset
    start = offset
    records: list[Record] = []
    while offset < log.log_end:
        content = log.read(offset, max_bytes)
        if not content:
            break
        end = 0
        for header, position in scan_batches(content):
            records += [record for record in decode_batch(content, position) if record.offset >= start]
            offset = header.next_offset
            end = position + header.size_bytes
        assert end == len(content), "an answer has only whole batches"
    return records
