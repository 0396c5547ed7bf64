"""Compaction: what stays, what goes, and that no crash or error in between loses a last value."""

from __future__ import annotations

import random

import pytest

from seamark.storage import DiskFull, StorageFailed, WritesStopped
from seamark.wire.records import Codec, Record, encode_batch, read_header, scan_batches
from tests.unit.storage.crashing_disk import CrashingDisk, PowerLost
from tests.unit.storage.log_readers import batch, read_all

# F4, F5, F7, F32

SEGMENT = "data/topic-0/00000000000000000000"


def put(log, *pairs, **options):
    return log.append(batch(*pairs, **options), now_ms=1000, leader_epoch=2)


def pairs(log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in read_all(log)]


def compacted(log, now_ms: int = 1000):
    log.roll(now_ms)
    log.compact(now_ms)
    return log


def test_the_last_value_of_a_key_stays_not_the_largest(open_log):
    log = open_log()
    key = bytes.fromhex("0001000964656d6f47726f7570000964656d6f546f70696300000000")
    for committed in (100, 150, 120):
        put(log, (key, b"%d" % committed))
    compacted(log)
    assert pairs(log) == [(2, key, b"120")]
    log.close()
    assert pairs(open_log()) == [(2, key, b"120")]


def test_the_segment_that_is_written_to_is_left_alone(open_log):
    log = open_log()
    put(log, (b"a", b"1"))
    log.roll(1000)
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"))
    log.compact(1000)
    assert [value for _, _, value in pairs(log)] == [b"1", b"2", b"3"]


def test_offsets_stay_and_so_does_the_end(open_log):
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    put(log, (b"c", b"4"))
    put(log, (b"c", b"5"))
    compacted(log)
    assert pairs(log) == [(1, b"b", b"2"), (2, b"a", b"3"), (4, b"c", b"5")]
    assert log.log_end == 5
    assert put(log, (b"d", b"6")).base_offset == 5


def test_a_batch_that_loses_a_record_keeps_its_range_and_its_producer(open_log):
    log = open_log()
    put(log, (b"x", b"0"))
    put(log, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), producer_id=7, producer_epoch=1, base_sequence=5)
    put(log, (b"b", b"4"))
    compacted(log)
    header = read_header(log.read(1, 1))
    assert (header.base_offset, header.last_offset, header.record_count) == (1, 3, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 5)
    assert header.partition_leader_epoch == 2


def test_a_batch_that_loses_nothing_is_the_same_bytes(open_log):
    log = open_log()
    put(log, (b"a", b"0"))
    put(log, (b"b", b"1"), (b"c", b"2"), codec=Codec.ZSTD)
    put(log, (b"a", b"3"))
    before = log.read(1, 1)
    compacted(log)
    assert log.read(0, 1) == before


@pytest.mark.parametrize("codec", list(Codec))
def test_keys_are_found_in_compressed_batches(open_log, codec):
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"2"), codec=codec)
    put(log, (b"a", b"3"), (b"c", b"4"), codec=codec)
    compacted(log)
    assert pairs(log) == [(1, b"b", b"2"), (2, b"a", b"3"), (3, b"c", b"4")]
    assert read_header(log.read(0, 1)).codec is codec


def test_long_keys_values_and_batches_are_skimmed_rightly(open_log):
    rng = random.Random(3)
    log = open_log(index_interval_bytes=500)
    last = {}
    for _ in range(40):
        records = []
        for number in range(rng.choice([1, 3, 150])):
            key = b"k" * rng.choice([0, 1, 63, 64, 200]) + b"%d" % rng.randrange(30)
            value = rng.choice([b"", b"v" * rng.randrange(20_000)])
            headers = [("h", b"x" * rng.randrange(300))] * rng.randrange(2)
            records.append(Record(number, rng.randrange(1 << 40), key=key, value=value, headers=headers))
            last[key] = (log.log_end + number, value, headers)
        log.append(encode_batch(records), now_ms=1000, leader_epoch=0)
    compacted(log)
    assert {record.key: (record.offset, record.value, record.headers) for record in read_all(log)} == last
    assert len(read_all(log)) == len(last)


def test_records_without_a_key_go(open_log):
    log = open_log()
    put(log, (None, b"1"), (b"a", b"2"), (None, None))
    compacted(log)
    assert pairs(log) == [(1, b"a", b"2")]


def test_a_tombstone_hides_its_key_at_once_and_goes_after_its_grace_time(open_log):
    log = open_log(delete_retention_ms=500)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    compacted(log, now_ms=10_000)
    assert pairs(log) == [(1, b"a", None)]
    assert read_header(log.read(0, 1)).delete_horizon_ms == 10_500
    put(log, (b"b", b"2"))
    compacted(log, now_ms=10_499)
    assert pairs(log) == [(1, b"a", None), (2, b"b", b"2")]
    assert read_header(log.read(0, 1)).delete_horizon_ms == 10_500, "the grace time does not begin again"
    assert not log.is_compaction_due(10_499)
    assert log.is_compaction_due(10_500)
    log.compact(10_500)
    assert pairs(log) == [(2, b"b", b"2")]


def test_the_grace_time_of_a_tombstone_survives_a_reopening(open_log):
    log = open_log(delete_retention_ms=500)
    put(log, (b"a", None), (b"b", b"1"))
    compacted(log, now_ms=10_000).close()
    log = open_log(delete_retention_ms=500)
    assert log.is_compaction_due(10_500)
    log.compact(10_500)
    assert pairs(log) == [(1, b"b", b"1")]


def test_a_tombstone_that_was_written_over_goes_at_once(open_log):
    log = open_log()
    put(log, (b"a", None))
    put(log, (b"a", b"1"))
    compacted(log)
    assert pairs(log) == [(1, b"a", b"1")]


def test_a_tombstones_record_keeps_its_time(open_log):
    log = open_log()
    put(log, (b"a", None), (b"b", b"1"), timestamp_ms=777)
    compacted(log, now_ms=10_000)
    assert [record.timestamp_ms for record in read_all(log)] == [777, 777]


def test_log_append_times_stay(open_log):
    log = open_log(log_append_time=True)
    log.append(batch((b"a", b"1"), (b"b", None), timestamp_ms=3), now_ms=5000, leader_epoch=0)
    log.append(batch((b"a", b"2")), now_ms=6000, leader_epoch=0)
    compacted(log, now_ms=10_000)
    assert [(record.offset, record.timestamp_ms, record.timestamp_type) for record in read_all(log)] == [
        (1, 5000, 1),
        (2, 6000, 1),
    ]


def test_transactions_and_markers_are_kept_whole(open_log):
    log = open_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), (b"a", b"2"), (None, b"2"), is_transactional=True)
    put(log, (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00"), is_transactional=True, is_control=True)
    put(log, (b"b", b"3"))
    compacted(log)
    assert [offset for offset, _, _ in pairs(log)] == [0, 1, 2, 3, 4, 5]
    put(log, (b"b", b"4"))
    compacted(log)
    assert [offset for offset, _, _ in pairs(log)] == [0, 1, 2, 3, 4, 6]


def test_a_batch_that_cannot_be_read_is_kept_whole_and_counts_for_nothing(open_log):
    log = open_log()
    put(log, (b"a", b"1"))
    # A record that claims more bytes than its batch has, under a CRC that fits.
    broken = bytearray(batch((b"a", b"2")))
    broken[61] = 0x7E
    from seamark.wire.records.crc32c import crc32c

    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    log.append(broken, now_ms=1000, leader_epoch=0)
    put(log, (b"b", b"3"))
    put(log, (b"b", b"4"))
    compacted(log)
    offsets = [header.base_offset for header, _ in scan_batches(log.read(0, 1 << 20))]
    assert offsets == [0, 1, 3]
    put(log, (b"b", b"5"))
    compacted(log)
    offsets = [header.base_offset for header, _ in scan_batches(log.read(0, 1 << 20))]
    assert offsets == [0, 1, 4]


def test_small_segments_are_joined_up_to_the_segment_size(open_log):
    log = open_log(segment_bytes=300)
    for number in range(40):
        put(log, (b"k%d" % (number % 3), b"v"))
    assert len(log.segments) == 10
    compacted(log)
    assert [segment.base_offset for segment in log.segments] == [0, 40]
    assert [offset for offset, _, _ in pairs(log)] == [37, 38, 39]


def test_segments_are_not_joined_beyond_the_segment_size(open_log):
    log = open_log(segment_bytes=300)
    for number in range(12):
        put(log, (b"%02d" % number, b"v"))
    before = [segment.size for segment in log.segments]
    compacted(log)
    assert [segment.size for segment in log.segments][:3] == before
    assert len(pairs(log)) == 12


def test_a_compaction_that_changes_nothing_leaves_the_files(open_log, disk):
    log = open_log()
    put(log, (b"a", b"1"))
    compacted(log)
    assert not log.segments[0].is_compacted
    assert not disk.exists(SEGMENT + ".cleaned")
    assert not log.is_compaction_due(1000)


def test_a_reader_passes_over_what_is_gone(open_log):
    log = open_log(segment_bytes=150)
    for _ in range(6):
        put(log, (b"a", b"1"))
    log.roll(1000)
    put(log, (b"z", b"2"))
    log.compact(1000)
    for offset in range(7):
        content = log.read(offset, 1)
        assert read_header(content).base_offset == (5 if offset < 6 else 6)


def test_a_segment_of_which_nothing_is_left_is_no_hole(open_log):
    log = open_log(segment_bytes=150, delete_retention_ms=0)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    compacted(log, now_ms=10_000)
    log.compact(10_000)
    assert pairs(log) == []
    assert log.read(0, 1 << 20) == b""
    put(log, (b"b", b"2"))
    assert read_header(log.read(0, 1 << 20)).base_offset == 2
    log.close()
    log = open_log()
    assert (log.log_end, pairs(log)) == (3, [(2, b"b", b"2")])


def test_only_dirty_segments_make_a_compaction_due(open_log):
    log = open_log(min_cleanable_dirty_ratio=0.5)
    assert not log.is_compaction_due(1000)
    for number in range(8):
        put(log, (b"%d" % number, b"v"))
    assert not log.is_compaction_due(1000), "all of it is in the segment that is written to"
    log.roll(1000)
    log.sync()
    assert log.is_compaction_due(1000)
    log.compact(1000)
    for dirty in range(1, 10):
        put(log, (b"0", b"w"))
        log.roll(1000)
        log.sync()
        assert log.is_compaction_due(1000) is (dirty >= 8)


def test_young_segments_wait_for_the_compaction_lag(open_log):
    log = open_log(min_compaction_lag_ms=100)
    put(log, (b"a", b"1"), timestamp_ms=1000)
    log.roll(1000)
    put(log, (b"a", b"2"), timestamp_ms=1050)
    log.roll(1050)
    put(log, (b"a", b"3"), timestamp_ms=1060)
    log.compact(1099)
    assert len(pairs(log)) == 3
    log.compact(1149)
    assert len(pairs(log)) == 3
    log.compact(1150)
    assert [value for _, _, value in pairs(log)] == [b"2", b"3"]


def test_too_many_keys_are_compacted_in_several_goes(open_log):
    log = open_log(segment_bytes=150, compaction_max_keys=2)
    for number in range(12):
        put(log, (b"%d" % (number % 4), b"%d" % number))
    log.roll(1000)
    for _ in range(8):
        log.compact(1000)
    assert [value for _, _, value in pairs(log)] == [b"8", b"9", b"10", b"11"]


def test_an_unsynced_value_does_not_replace_a_synced_one(open_log, disk):
    log = open_log()
    put(log, (b"a", b"1"))
    log.roll(1000)
    log.sync()
    put(log, (b"a", b"2"))
    log.roll(1000)
    for _ in log.compaction_steps(1000):
        pass
    assert pairs(open_log(disk.after_crash()))[0] == (0, b"a", b"1")


def test_appends_and_reads_go_on_between_the_steps(open_log):
    log = open_log(segment_bytes=150)
    for number in range(10):
        put(log, (b"%d" % (number % 2), b"%d" % number))
    log.sync()
    for _ in log.compaction_steps(1000):
        put(log, (b"0", b"new"))
        assert {key for _, key, _ in pairs(log)} == {b"0", b"1"}
    assert {key: value for _, key, value in pairs(log)} == {b"0": b"new", b"1": b"9"}


def test_a_second_compaction_beside_the_first_does_nothing(open_log):
    log = open_log()
    for _ in range(3):
        put(log, (b"a", b"1"))
    log.roll(1000)
    log.sync()
    first = log.compaction_steps(1000)
    next(first)
    assert list(log.compaction_steps(1000)) == []
    for _ in first:
        pass
    assert len(pairs(log)) == 1


def history(open_log, disk):
    log = open_log(disk, segment_bytes=150, delete_retention_ms=0)
    for number in range(12):
        put(log, (b"%d" % (number % 3), b"%d" % number), (b"t%d" % (number % 2), None if number > 8 else b"x"))
    log.roll(1000)
    log.sync()
    return log


@pytest.mark.parametrize("goes", [1, 2])
def test_a_crash_at_any_point_of_a_compaction_loses_no_last_value(open_log, goes):
    expected = {b"0": b"9", b"1": b"10", b"2": b"11"}
    crash_at = 0
    while True:
        crash_at += 1
        disk = CrashingDisk(random.Random(crash_at))
        log = history(open_log, disk)
        if goes == 2:
            log.compact(1000)
            put(log, (b"0", b"12"))
            log.roll(1000)
            log.sync()
            expected[b"0"] = b"12"
        disk.crash_at = disk.changes + crash_at
        try:
            log.compact(5000)
        except PowerLost:
            disk.crash_at = None
        else:
            break
        log = open_log(disk.after_crash(), segment_bytes=150, delete_retention_ms=0)
        found = {record.key: record.value for record in read_all(log)}
        assert {key: value for key, value in found.items() if value is not None} == expected
        assert log.log_end == (12 * 2 + goes - 1)
        log.compact(6000)
        found = {record.key: record.value for record in read_all(log)}
        assert {key: value for key, value in found.items() if value is not None} == expected
    assert crash_at > 10


def test_a_disk_that_fills_up_leaves_the_log_as_it_was(open_log, disk):
    log = history(open_log, disk)
    before = pairs(log)
    disk.room_bytes = 100
    with pytest.raises(DiskFull):
        log.compact(1000)
    assert pairs(log) == before
    disk.room_bytes = None
    assert not disk.exists(SEGMENT + ".cleaned")
    put(log, (b"0", b"more"))
    log.compact(1000)
    assert len(pairs(log)) < len(before)


def test_a_swap_that_fails_stops_writes(open_log, disk):
    log = history(open_log, disk)
    steps = log.compaction_steps(1000)
    next(steps)
    disk.failing = {"remove"}
    with pytest.raises(StorageFailed):
        for _ in steps:
            pass
    disk.failing = set()
    with pytest.raises(WritesStopped):
        put(log, (b"a", b"1"))
    log.close()
    found = {key: value for _, key, value in pairs(open_log())}
    assert found[b"0"] == b"9"


@pytest.mark.parametrize("steps_before", [1, 4])
def test_a_log_that_was_opened_again_is_left_alone_by_the_compaction_of_the_stopped_one(open_log, disk, steps_before):
    stopped = history(open_log, disk)
    before = pairs(stopped)
    steps = stopped.compaction_steps(1000)
    for _ in range(steps_before):
        next(steps)
    stopped.stop_writes("a sync failed")
    reopened = open_log(disk)
    found = pairs(reopened)
    with pytest.raises(WritesStopped):
        for _ in steps:
            pass
    assert pairs(reopened) == found
    assert {key: value for _, key, value in found} == {key: value for _, key, value in before}
