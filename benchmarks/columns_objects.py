"""columns.objects: record batches in memory to record objects in pure Python, against kafka-python's reader.

Both check the CRC of each batch and read key, value, headers, offset and timestamp of each record. The batches are
those of a producer with Kafka's default batch size: 16 KiB, values of 100 bytes, small keys, no compression.
"""

from __future__ import annotations

import time
import warnings

from benchmarks.claims import compare
from seamark.wire.records import Record, decode_records, encode_batch, scan_batches

BATCHES = 256
RECORDS_PER_BATCH = 142
FIRST_TIMESTAMP_MS = 1_700_000_000_000


def fetched_bytes() -> bytes:
    batches = []
    for number in range(BATCHES):
        start = number * RECORDS_PER_BATCH
        batches.append(
            encode_batch(
                [
                    Record(offset, FIRST_TIMESTAMP_MS + offset, 0, b"key-%d" % (offset % 1_000), b"%0100d" % offset)
                    for offset in range(start, start + RECORDS_PER_BATCH)
                ]
            )
        )
    return b"".join(batches)


def seamark_records_per_second(buffer: bytes) -> float:
    count = total = 0
    started = time.perf_counter()
    for header, position in scan_batches(buffer):
        for record in decode_records(buffer, position, header):
            total += len(record.key) + len(record.value) + len(record.headers) + record.offset + record.timestamp_ms
            count += 1
    elapsed = time.perf_counter() - started
    return checked(count, total) / elapsed


def kafka_python_records_per_second(buffer: bytes) -> float:
    with warnings.catch_warnings():
        # Its import loads schemas through a deprecated function of the standard library.
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.record.memory_records import MemoryRecords

    count = total = 0
    started = time.perf_counter()
    for batch in MemoryRecords(buffer):
        if not batch.validate_crc():
            raise AssertionError("kafka-python finds a wrong CRC")
        for record in batch:
            total += len(record.key) + len(record.value) + len(record.headers) + record.offset + record.timestamp
            count += 1
    elapsed = time.perf_counter() - started
    return checked(count, total) / elapsed


def checked(count: int, total: int) -> int:
    """Both readers must have read the same: the sum over all fields says so."""
    records = BATCHES * RECORDS_PER_BATCH
    expected = sum(len(b"key-%d" % (offset % 1_000)) for offset in range(records))
    expected += records * (100 + FIRST_TIMESTAMP_MS) + records * (records - 1)
    if (count, total) != (records, expected):
        raise AssertionError(f"read {count} records with the sum {total}, not {records} with {expected}")
    return count


def measure() -> list[dict[str, object]]:
    buffer = fetched_bytes()
    return [
        compare(
            "columns.objects",
            "records/s",
            "higher",
            lambda: seamark_records_per_second(buffer),
            lambda: kafka_python_records_per_second(buffer),
            peer_name="kafka-python",
        )
    ]
