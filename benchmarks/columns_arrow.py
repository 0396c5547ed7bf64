"""Record batches in memory to Arrow columns, beside aiokafka's compiled reader; what a process's first batch costs.

Four partitions of 60 batches each, uncompressed: 135 records of an 8-byte key and a 100-byte value fill a batch to the
producer's default batch.size of 16,384 bytes. Both sides check every CRC and produce key, value, offset and timestamp
of every record: we as one Arrow batch per partition, kept until all four are there; aiokafka as record objects, each
read and let go. Before the clock runs, the sums over all four must be the same. ``large_batches_ratio`` is for the same
records in one batch of 1 MB per partition. The start of a process is measured in processes with a cache directory of
their own, from after the imports to the first decoded batch.
"""

import os
import subprocess
import sys
import tempfile
import time
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from benchmarks.claims import compare
from seamark.wire.columns.columns import COLUMN_NAMES, decode_columns
from seamark.wire.records import rebase

PARTITIONS = 4
RECORDS_PER_PARTITION = 8100
ROUNDS = 30

FIRST_BATCH = """
import sys, time, logging
import numba, numpy, pyarrow, fastcrc
import seamark.wire.columns.columns as columns
from seamark.wire.records import Record, encode_batch
batch = encode_batch([Record(number, 0, key=b"k", value=b"v" * 100) for number in range(100)])
start = time.perf_counter()
assert columns.decode_columns(batch).row_count == 100
print(time.perf_counter() - start)
start = time.perf_counter()
assert columns.decode_columns(batch, columns=columns.COLUMN_NAMES).row_count == 100
print(time.perf_counter() - start)
"""


def measure() -> list[dict[str, object]]:
    partitions = [_partition(seed, records_per_batch=135) for seed in range(PARTITIONS)]
    large = [_partition(seed, records_per_batch=RECORDS_PER_PARTITION) for seed in range(PARTITIONS)]
    for each in (partitions, large):
        _check_content(each)
    # The others than the claim's own figure are taken afterwards, when everything is compiled.
    claim = compare(
        "columns.to_arrow",
        "records/s",
        "higher",
        lambda: _rate(lambda: _to_arrow(partitions)),
        lambda: _rate(lambda: _with_aiokafka(partitions)),
        peer_name="aiokafka",
    )
    in_large = _beside(lambda: _to_arrow(large), lambda: _with_aiokafka(large))
    claim["large_batches_ratio"] = in_large["ratio"]
    claim["offset_only"] = _beside(lambda: _to_arrow(partitions, ["offset"]))["ours"]
    claim["all_columns"] = _beside(lambda: _to_arrow(partitions, COLUMN_NAMES))["ours"]
    return [claim, *_process_starts()]


def _beside(ours, peer=None) -> dict[str, object]:
    return compare("", "records/s", "higher", lambda: _rate(ours), (lambda: _rate(peer)) if peer else None)


def _check_content(partitions) -> None:
    ours = theirs = 0
    for partition in partitions:
        batch = decode_columns(partition).batch
        ours += sum(pc.sum(pc.binary_length(batch[name])).as_py() for name in ("key", "value"))
        ours += sum(pc.sum(batch[name].cast(pa.int64())).as_py() for name in ("offset", "timestamp"))
        batches = MemoryRecords(partition)
        while batches.has_next():
            for record in batches.next_batch():
                theirs += len(record.key) + len(record.value) + record.offset + record.timestamp
    if ours != theirs:
        raise AssertionError(f"our columns add up to {ours}, aiokafka's records to {theirs}")


def _partition(seed: int, records_per_batch: int) -> bytes:
    rng = Random(seed)
    batches = []
    for first in range(0, RECORDS_PER_PARTITION, records_per_batch):
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 24,
        )
        for number in range(min(records_per_batch, RECORDS_PER_PARTITION - first)):
            key = b"%08d" % rng.randrange(10**8)
            builder.append(number, 1_700_000_000_000 + first + number, key, rng.randbytes(100), [])
        batches.append(rebase(bytes(builder.build()), first, 0))
    return b"".join(batches)


def _rate(work) -> float:
    expected = PARTITIONS * RECORDS_PER_PARTITION
    start = time.perf_counter()
    for _ in range(ROUNDS):
        assert work() == expected
    return ROUNDS * expected / (time.perf_counter() - start)


def _to_arrow(partitions, columns=("key", "value", "offset", "timestamp")) -> int:
    decoded = [decode_columns(partition, columns=columns) for partition in partitions]
    return sum(one.batch.num_rows for one in decoded)


def _with_aiokafka(partitions) -> int:
    count = 0
    for partition in partitions:
        batches = MemoryRecords(partition)
        while batches.has_next():
            batch = batches.next_batch()
            assert batch.validate_crc()
            for record in batch:
                _ = record.key, record.value, record.offset, record.timestamp
                count += 1
    return count


def _process_starts() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as cache:
        _, _ = _first_batch(cache)
        warm = compare(
            "columns.first_batch_warm", "s", "lower", lambda: _first_batch(cache)[0], None, fresh_processes=True
        )
    return [warm, compare("columns.cold_compile", "s", "lower", _cold_compile, None, 3, fresh_processes=True)]


def _cold_compile() -> float:
    """Both kernels: the one that every call needs and the one for headers."""
    with tempfile.TemporaryDirectory() as cache:
        return sum(_first_batch(cache))


def _first_batch(cache: str) -> tuple[float, float]:
    ran = subprocess.run(
        [sys.executable, "-c", FIRST_BATCH],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    first, with_headers = ran.stdout.split()
    return float(first), float(with_headers)
