"""Compaction of a million offset commits over ten thousand keys, on a real filesystem, one core.

Each commit is a batch of its own, the most expensive shape: a header is read for every record. The log is written
once; every run compacts a fresh copy that was opened cold, so its blocks are checked, and includes all syncs of the
swap.
"""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
import time

from seamark.storage import Log, LogSettings, RealFilesystem
from seamark.wire.records import Record, decode_batch, encode_batch, scan_batches

RECORDS = 1_000_000
KEYS = 10_000
RUNS = 5
SETTINGS = LogSettings(segment_bytes=100 << 20, segment_ms=1 << 60, retention_ms=-1)


def commit_key(group: int, topic: bytes, partition: int) -> bytes:
    name = b"bench-group-%04d" % group
    return b"\x00\x01" + b"".join(
        (len(name).to_bytes(2, "big"), name, len(topic).to_bytes(2, "big"), topic, partition.to_bytes(4, "big"))
    )


def write_log(directory: str) -> dict[bytes, bytes]:
    """The last value of each key."""
    rng = random.Random(4)
    keys = [commit_key(number // 10, b"orders", number % 10) for number in range(KEYS)]
    last: dict[bytes, bytes] = {}
    log = Log.open(RealFilesystem(), directory, SETTINGS, now_ms=0)
    for number in range(RECORDS):
        value = b"\x00\x03" + number.to_bytes(8, "big") + b"\xff\xff\xff\xff\x00\x00" + bytes(8)
        key = keys[rng.randrange(KEYS)]
        last[key] = value
        record = Record(0, 1_700_000_000_000 + number, key=key, value=value)
        log.append(encode_batch([record]), now_ms=0, leader_epoch=0)
    log.roll(0)
    log.close()
    return last


def compact_once(directory: str, last: dict[bytes, bytes]) -> float:
    log = Log.open(RealFilesystem(), directory, SETTINGS, now_ms=0)
    started = time.perf_counter()
    log.compact(0)
    seconds = time.perf_counter() - started
    check_compacted(log, last)
    log.close()
    return seconds


def check_compacted(log: Log, last: dict[bytes, bytes]) -> None:
    """One record for each key is left, and that is the last one that was written."""
    left: list[tuple[bytes | None, bytes | None]] = []
    position = log.log_start
    while position < log.log_end:
        content = log.read(position, 16 << 20)
        for header, start in scan_batches(content):
            left += [(record.key, record.value) for record in decode_batch(content, start)]
            position = header.last_offset + 1
        if not content:
            break
    if log.log_end != RECORDS or len(left) != len(last) or dict(left) != last:
        raise RuntimeError(
            f"the compacted log is not what it should be: it ends at {log.log_end} of {RECORDS} and has {len(left)} "
            f"records of {len(dict(left))} keys, where {len(last)} were written"
        )


def measure() -> list[dict]:
    rates = []
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as scratch:
        original = f"{scratch}/original"
        last = write_log(original)
        for run in range(RUNS + 1):
            copy = f"{scratch}/run-{run}"
            shutil.copytree(original, copy)
            seconds = compact_once(copy, last)
            shutil.rmtree(copy)
            # The first run warms the page cache and the interpreter.
            if run:
                rates.append(RECORDS / seconds)
    return [
        {
            "id": "storage.compaction",
            "unit": "records/s",
            "better": "higher",
            "ours": round(statistics.median(rates)),
            "peer": None,
            "ratio": None,
            "runs": RUNS,
        }
    ]
