"""Batches that an earlier release took although their records lie or unfold without end: the log lives with them."""

from __future__ import annotations

import logging
import tracemalloc

import pytest

from seamark.errors import DecodeError
from seamark.storage.compaction import key_map, survivors
from seamark.storage.settings import LEAST_DECOMPRESSED_BYTES
from seamark.wire.records import read_records
from seamark.wire.records.compression import Codec
from seamark.wire.records.record_batch import read_outline
from seamark.wire.records.record_walk import MAX_RECORDS
from tests.support.hostile_batches import (
    batch,
    compressed,
    header_bomb,
    misleading_bodies,
    record,
    records,
    unsound_bodies,
    value_bomb,
)
from tests.unit.storage.log_readers import batch as honest
from tests.unit.storage.log_readers import read_all

BILLION = 2**31 - 1


def put(log, made: bytes) -> None:
    log.append(made, now_ms=1000, leader_epoch=0)


def store_as_before(log, made: bytes) -> None:
    """Write a batch that ``append`` refuses today, under the next offset."""
    changed = bytearray(made)
    changed[:8] = log.log_end.to_bytes(8, "big")
    outline = read_outline(changed)
    log.append_prebuilt(bytes(changed), outline.next_offset, outline.max_timestamp_ms, 1000)


def outlines(log) -> list[tuple[int, int]]:
    """First offset and record count of each batch."""
    found = []
    offset = log.log_start
    while offset < log.log_end:
        content = log.read(offset, 1)
        if not content:
            break
        outline = read_outline(content)
        found.append((outline.base_offset, outline.record_count))
        offset = outline.next_offset
    return found


def compact(log) -> int:
    """Compact what is there; return in how many steps."""
    log.roll(1000)
    log.sync()
    return sum(1 for _ in log.compaction_steps(1000))


def test_a_batch_that_cannot_hold_its_records_is_refused_by_the_log(open_log):
    log = open_log()
    with pytest.raises(DecodeError):
        put(log, batch(bytes(9), BILLION))
    assert log.log_end == 0


def test_recovery_keeps_a_whole_batch_whatever_it_says_of_its_records(open_log, caplog):
    """Its checksum is right, so nothing is damaged; to cut there would take the records of others."""
    log = open_log()
    put(log, honest((b"a", b"1")))
    store_as_before(log, batch(bytes(9), 500, last_delta=499))
    put(log, honest((b"b", b"2")))
    log.sync()
    # Not closed: the next opening has no mark and looks at every byte.
    again = open_log()
    assert outlines(again) == [(0, 1), (1, 500), (501, 1)]
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_times_are_found_around_batches_that_cannot_be_read(open_log, caplog):
    log = open_log()
    put(log, honest((b"a", b"1"), timestamp_ms=1000))
    put(log, batch(b"\x99garbage" * 3, 1, base_ms=5000, max_ms=5000))
    put(log, batch(records(2), 2, base_ms=2000, max_ms=2**62))
    put(log, honest((b"b", b"2"), timestamp_ms=3000))
    for _ in range(3):
        assert log.offset_for_timestamp(1000) == (0, 1000)
        assert log.offset_for_timestamp(2500) == (4, 3000)
        assert log.max_timestamp() == (4, 3000)
    told = [each.message for each in caplog.records if "cannot be read" in each.message]
    assert len(told) == 1
    assert not any("the log is truncated here" in each.message for each in caplog.records)
    assert [each.key for each in read_all(open_log(), from_offset=4)] == [b"b"]


def test_the_lookup_by_time_makes_no_headers(open_log):
    log = open_log()
    put(log, header_bomb(3_000_000))
    tracemalloc.start()
    assert log.max_timestamp() is not None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


def test_compaction_keeps_batches_whole_that_it_cannot_read(open_log, caplog):
    log = open_log()
    put(log, honest((b"k", b"1"), (b"b", b"2")))
    unread = {"garbage", "more records than there are", "fewer records than there are", "record length negative",
              "trailing bytes in the batch", "key longer than its record", "offset deltas in reverse"}  # fmt: skip
    kept = []
    for name, body, count in (*unsound_bodies(), *misleading_bodies()):
        for made in (batch(body, count), compressed(Codec.ZSTD, body, count)):
            if name in unread:
                kept.append(log.log_end)
                store_as_before(log, made)
    kept.append(log.log_end)
    put(log, batch(b"no stream", 3, attributes=int(Codec.GZIP)))
    put(log, honest((b"k", b"3")))
    before = log.log_end
    compact(log)
    assert log.log_end == before
    assert [offset for offset, _ in outlines(log)] == [0, *kept, before - 1]
    told = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(told) == 1
    assert f"compaction keeps {len(kept)} batches unchanged, the first at offset 2" in told[0]


def test_compaction_copies_records_with_many_headers_and_makes_none(open_log):
    log = open_log()
    for _ in range(2):
        # Two records, so that one of them goes.
        bomb = header_bomb(2_000_000)
        put(log, bomb)
    body = record(0, key=b"gone") + record(1, key=b"stays", headers=b"\x80\x89\x7a" + bytes(2_000_000))
    put(log, compressed(Codec.ZSTD, body, 2))
    put(log, honest((b"gone", b"newer")))
    tracemalloc.start()
    compact(log)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outlines(log) == [(1, 1), (2, 1), (4, 1)]
    assert peak < 60_000_000


def test_a_compacted_record_is_byte_for_byte_what_it_was(open_log):
    log = open_log()
    first = record(0, key=b"a") + record(1, key=b"b", time_delta=-9, attributes=7) + record(2, key=b"c", value=None)
    put(log, batch(first, 3, base_ms=500, max_ms=500))
    put(log, honest((b"a", b"newer")))
    compact(log)
    found = log.read(0, 1 << 20)
    outline = read_outline(found)
    # A tombstone sets the horizon, from which the times are then counted.
    assert outline.has_delete_horizon
    assert [(each.key, each.value, each.timestamp_ms) for each in read_records(found)] == [
        (b"b", b"value", 491),
        (b"c", None, 500),
        (b"a", b"newer", 1000),
    ]
    assert outline.max_timestamp_ms == 500


def test_compaction_of_bombs_takes_bounded_memory(open_log):
    log = open_log()
    for _ in range(3):
        put(log, value_bomb(LEAST_DECOMPRESSED_BYTES + 1, Codec.ZSTD))
    put(log, compressed(Codec.ZSTD, bytes(7) * (MAX_RECORDS + 1), MAX_RECORDS + 1))
    put(log, honest((b"k", b"last")))
    tracemalloc.start()
    compact(log)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * LEAST_DECOMPRESSED_BYTES
    assert [count for _, count in outlines(log)] == [1, 1, 1, MAX_RECORDS + 1, 1]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_compaction_pauses_inside_of_a_long_batch(open_log, monkeypatch, codec):
    monkeypatch.setattr(key_map, "_SLICE", 100)
    monkeypatch.setattr(survivors, "_SLICE", 100)
    log = open_log()
    body = b"".join(record(n, key=b"%d" % (n % 50)) for n in range(2000))
    for _ in range(2):
        put(log, batch(body, 2000) if codec is Codec.NONE else compressed(codec, body, 2000))
    # Both are skimmed for keys, and the second, of which a part stays, is looked at and copied.
    assert compact(log) >= 4 * 2000 // 100 - 5
    assert [count for _, count in outlines(log)] == [50]
