"""Every byte of a small log's directory flipped, and every file cut at every byte.

Whatever is found damaged, opening answers, no record comes out that was not written, and every batch before the
damage stays.
"""

from __future__ import annotations

import logging
import random

import pytest

from seamark.storage import CorruptBatch, Log, LogSettings, MemoryFilesystem
from seamark.wire.records import Record, decode_batch, encode_batch, scan_batches
from tests.unit.storage.log_readers import batch, read_all

# F4, F15: bad input of the storage part

DIRECTORY = "topic-0"
# A block per batch: where compaction left gaps, a damaged offset is found to the block, not to the batch.
SETTINGS = LogSettings(segment_bytes=220, index_interval_bytes=0, retention_ms=-1, delete_retention_ms=10)
WIDE_BLOCKS = LogSettings(segment_bytes=400, index_interval_bytes=150, retention_ms=-1, delete_retention_ms=10)

Files = dict[str, bytes]


def files_of(filesystem) -> Files:
    found = {}
    for name in filesystem.list(DIRECTORY):
        file = filesystem.open(f"{DIRECTORY}/{name}")
        found[name] = file.read(0, file.size())
    return found


def disk_with(files: Files) -> MemoryFilesystem:
    filesystem = MemoryFilesystem()
    filesystem.mkdir(DIRECTORY)
    for name, content in files.items():
        filesystem.open(f"{DIRECTORY}/{name}", create=True).append(content)
    return filesystem


def small_log(state: str, settings: LogSettings = SETTINGS) -> Files:
    """Two compacted segments, two sealed ones, one that is written to; ``state`` is how the process ended."""
    filesystem = MemoryFilesystem()
    log = Log.open(filesystem, DIRECTORY, settings, now_ms=1000)

    def append(*pairs) -> None:
        log.append(batch(*pairs, timestamp_ms=1000 + log.log_end), now_ms=1000, leader_epoch=5)

    for key in (b"a", b"b", b"c", b"a", b"d", b"b"):
        append((key, b"v%d" % log.log_end), (key, b"w%d" % log.log_end))
    log.roll(1000)
    log.delete_records_before(1)
    log.compact(1000)
    for key in (b"a", b"e", b"f", b"g", b"h"):
        append((key, b"v%d" % log.log_end), (b"x", None))
    if state != "unsynced":
        log.sync()
    if state == "clean":
        log.close()
    return files_of(filesystem)


def batches_in(files: Files) -> list[tuple[str, int, int, list[Record]]]:
    found = []
    for name in sorted(files):
        if name.endswith(".log"):
            for header, start in scan_batches(files[name]):
                found.append((name, start, start + header.size_bytes, decode_batch(files[name], start)))
    return found


def records_before(files: Files, name: str, position: int) -> list[Record]:
    """Return what lies before a byte of a file; damage to anything but a segment takes no record at all."""
    kept = []
    for file, _, end, records in batches_in(files):
        if name.endswith(".log") and (file, end) > (name, position):
            break
        kept += [record for record in records if record.offset >= 1]
    return kept


def check_recovers(files: Files, damaged: Files, at_least: list[Record]) -> None:
    written = {record.offset: record for *_, records in batches_in(files) for record in records}
    filesystem = disk_with(damaged)
    log = Log.open(filesystem, DIRECTORY, SETTINGS, now_ms=2000)
    try:
        found = read_all(log, max_bytes=150)
    except CorruptBatch:
        # Only after a clean shutdown: damage is found by the read, and the next opening cuts it.
        assert "clean-shutdown" in files
        log.close()
        log = Log.open(filesystem, DIRECTORY, SETTINGS, now_ms=2000)
        found = read_all(log)
    for record in found:
        assert record == written[record.offset]
    assert [record for record in found if record.offset >= 1][: len(at_least)] == at_least
    # What is left goes on as a log, and says the same to the next process.
    result = log.append(encode_batch([Record(0, 7, key=b"k", value=b"new")]), now_ms=2000, leader_epoch=6)
    log.sync()
    again = read_all(Log.open(filesystem, DIRECTORY, SETTINGS, now_ms=2000))
    assert again == [*found, Record(result.base_offset, 7, 0, b"k", b"new")]


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL, "seamark.storage")


@pytest.mark.parametrize("state", ["clean", "synced", "unsynced"])
def test_a_flipped_bit_anywhere_costs_nothing_before_it(state):
    rng = random.Random(state)
    files = small_log(state)
    for name, content in files.items():
        for position in range(len(content)):
            flipped = bytearray(content)
            flipped[position] ^= 1 << rng.randrange(8)
            check_recovers(files, files | {name: bytes(flipped)}, records_before(files, name, position))


@pytest.mark.parametrize("state", ["clean", "synced", "unsynced"])
def test_a_file_cut_anywhere_costs_nothing_before_the_cut(state):
    files = small_log(state)
    for name, content in files.items():
        for position in range(len(content)):
            check_recovers(files, files | {name: content[:position]}, records_before(files, name, position))


@pytest.mark.parametrize("state", ["clean", "synced", "unsynced"])
def test_a_missing_file_costs_nothing_before_it(state):
    files = small_log(state)
    for name in files:
        check_recovers(
            files, {other: files[other] for other in files if other != name}, records_before(files, name, -1)
        )


@pytest.mark.parametrize("seed", range(150))
def test_random_damage_in_several_places_invents_nothing(seed):
    # Not a segment and its index: an offset that changed inside a gap, with nothing beside it, cannot be told.
    rng = random.Random(seed)
    files = small_log(rng.choice(["clean", "synced", "unsynced"]), WIDE_BLOCKS)
    damaged = dict(files)
    spared: set[str] = set()
    for _ in range(rng.randrange(1, 6)):
        name = rng.choice(sorted(set(files) - spared))
        spared |= {other for other in files if other != name and other[:20] == name[:20]}
        content = bytearray(damaged[name])
        position = rng.randrange(len(content) + 1)
        match rng.randrange(4):
            case 0:
                content[position : position + 1] = rng.randbytes(1)
            case 1:
                del content[position:]
            case 2:
                content += rng.randbytes(rng.randrange(200))
            case 3:
                content[position : position + 30] = bytes(30)
        damaged[name] = bytes(content)
    written = [record for *_, records in batches_in(files) for record in records]
    filesystem = disk_with(damaged)
    for _ in range(2):
        log = Log.open(filesystem, DIRECTORY, WIDE_BLOCKS, now_ms=2000)
        try:
            assert all(record in written for record in read_all(log))
        except CorruptBatch:
            log.close()
            continue
        log.close()
