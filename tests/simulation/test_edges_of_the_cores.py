"""Edges of the coordinator and the log that a lifetime does not reach, each as its smallest case."""

import random

import pytest

from seamark.coordinator import CommitOffsets, DescribeGroups, FetchOffsets, JoinGroup, Settings, SyncGroup
from seamark.errors import ConfigError
from seamark.simulation.broker.log_checks import LogReader
from seamark.simulation.world.disk import SimulatedDisk
from seamark.storage import CorruptBatch, Log, LogSettings
from seamark.wire.records import Record, encode_batch

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1


# D4, D6, D16, D31, F9, F18, F29
@pytest.mark.parametrize(
    ("name", "default", "least", "most"),
    [
        ("min_session_timeout_ms", 6000, 1, 1_800_000),
        ("max_session_timeout_ms", 1_800_000, 6000, MAX_INT32),
        ("max_group_size", MAX_INT32, 1, MAX_INT32),
        ("initial_rebalance_delay_ms", 3000, 0, MAX_INT32),
        ("commit_timeout_ms", 5000, 1, MAX_INT32),
        ("retention_minutes", 10_080, 1, MAX_INT32),
        ("retention_check_interval_ms", 600_000, 1, MAX_INT64),
        ("metadata_max_bytes", 4096, 0, MAX_INT32),
    ],
)
def test_a_coordinator_setting_has_kafkas_default_and_range(name, default, least, most):
    assert getattr(Settings(), name) == default
    for value in (least, most):
        assert getattr(Settings(**{name: value}), name) == value
    for value in (least - 1, most + 1):
        with pytest.raises(ConfigError):
            Settings(**{name: value})


def test_the_smallest_session_timeouts_are_one_millisecond():
    assert Settings(min_session_timeout_ms=1, max_session_timeout_ms=1).max_session_timeout_ms == 1
    with pytest.raises(ConfigError):
        Settings(min_session_timeout_ms=0, max_session_timeout_ms=0)


def test_a_new_member_has_five_minutes():
    assert Settings().new_member_timeout_ms == 300_000


def test_a_retention_of_minutes_is_one_of_milliseconds():
    assert Settings(retention_minutes=2).retention_ms == 120_000


@pytest.mark.parametrize(
    ("name", "default", "least"),
    [
        ("segment_bytes", 1 << 30, 1),
        ("segment_ms", 604_800_000, 1),
        ("index_interval_bytes", 4096, 0),
        ("retention_ms", 604_800_000, -1),
        ("retention_bytes", -1, -1),
        ("delete_retention_ms", 86_400_000, 0),
        ("min_compaction_lag_ms", 0, 0),
        ("compaction_max_keys", 1_000_000, 1),
        ("min_cleanable_dirty_ratio", 0.5, 0),
    ],
)
def test_a_log_setting_has_its_default_and_smallest_value(name, default, least):
    assert getattr(LogSettings(), name) == default
    assert getattr(LogSettings(**{name: least}), name) == least
    with pytest.raises(ConfigError):
        LogSettings(**{name: least - 1})


def test_a_dirty_ratio_of_one_is_the_largest():
    assert LogSettings(min_cleanable_dirty_ratio=1).min_cleanable_dirty_ratio == 1
    with pytest.raises(ConfigError):
        LogSettings(min_cleanable_dirty_ratio=1.01)


def a_log(**settings):
    return Log.open(SimulatedDisk(random.Random(0)), "log", LogSettings(**settings), now_ms=0)


def append(log, records, now_ms=1):
    log.append(
        encode_batch([Record(number, 1, key=key, value=value) for number, (key, value) in enumerate(records)]),
        now_ms,
        0,
    )


# F7
@pytest.mark.parametrize("count", [1, 63, 64, 65, 200, 8191, 8193])
def test_compaction_keeps_the_last_of_many_records_in_a_batch_that_does_not_begin_at_0(count):
    log = a_log()
    append(log, [(b"first", b"1")])
    append(log, [(b"k%d" % (number % 5), b"v%d" % number) for number in range(count)])
    expected = {record.key: (record.offset, record.value) for record in LogReader().read(log)}
    log.roll(2)
    log.compact(2)
    assert {record.key: (record.offset, record.value) for record in LogReader().read(log)} == expected
    assert len(LogReader().read(log)) == len(expected)


@pytest.mark.parametrize(("interval_bytes", "blocks"), [(0, 6), (90, 6), (91, 3), (180, 3), (250, 2), (10_000, 1)])
def test_an_index_has_an_entry_per_interval(interval_bytes, blocks):
    log = a_log(index_interval_bytes=interval_bytes)
    for number in range(6):
        append(log, [(b"k", b"v" * 20 + b"%d" % number)])
    (segment,) = log.segments
    assert segment.size == 6 * 90
    assert len(segment.blocks) == blocks


@pytest.mark.parametrize("interval_bytes", [0, 91, 200, 10_000])
def test_a_read_gives_the_whole_batches_that_fit_and_no_others(interval_bytes):
    log = a_log(index_interval_bytes=interval_bytes)
    batches = []
    for number in range(8):
        before = log.segments[-1].size
        append(log, [(b"k%d" % each, b"v" * number * 9) for each in range(1 + number % 3)])
        batches.append((log.log_end, log.segments[-1].size - before))
    whole = log.read(0, 1 << 20)
    assert len(whole) == sum(size for _, size in batches)
    for offset in range(log.log_end):
        first = next(place for place, (end, _) in enumerate(batches) if offset < end)
        start = sum(size for _, size in batches[:first])
        for end_offset in (*range(offset + 1, log.log_end + 1), None):
            limit = log.log_end if end_offset is None else end_offset
            for max_bytes in (0, 1, 90, 91, 250, 251, 500, 10_000):
                size = 0
                for place in range(first, len(batches)):
                    begins = batches[place - 1][0] if place else 0
                    if begins >= limit or (size and size + batches[place][1] > max_bytes):
                        break
                    size += batches[place][1]
                assert log.read(offset, max_bytes, end_offset=end_offset) == whole[start : start + size]


def test_a_segment_counts_as_started_with_its_first_record_unless_that_lies_in_the_future():
    for timestamp_ms, now_ms, started_ms in (
        (0, 500, 0),
        (499, 500, 499),
        (500, 500, 500),
        (501, 500, 500),
        (-1, 500, 500),
    ):
        disk = SimulatedDisk(random.Random(0))
        log = Log.open(disk, "log", now_ms=0)
        log.append(encode_batch([Record(0, timestamp_ms, key=b"k", value=b"v")]), 1, 0)
        disk.kill()
        assert Log.open(disk, "log", now_ms=now_ms).segments[0].started_ms == started_ms


def test_a_damaged_start_mark_hides_no_records():
    disk = SimulatedDisk(random.Random(0))
    log = Log.open(disk, "log", now_ms=0)
    for number in range(4):
        append(log, [(b"k", b"%d" % number)])
    assert log.delete_records_before(2) == 2
    disk.kill()
    assert Log.open(disk, "log", now_ms=0).log_start == 2
    disk.kill()
    disk.open("log/log-start").append(b"damage")
    assert Log.open(disk, "log", now_ms=0).log_start == 0


# D35
def test_commands_stand_for_the_newest_version_unless_told_otherwise():
    assert DescribeGroups(["g"]).missing_is_error
    assert CommitOffsets("g", []).missing_group_is_not_found
    assert not SyncGroup("g", "m", 1).protocol_required
    join = JoinGroup("g", "", 6000, 6000, "consumer", [])
    assert join.require_known_member_id
    assert join.supports_skip_assignment
    assert not FetchOffsets("g").require_stable


def damaged_at(disk, path, position):
    file = disk.open(path)
    content = bytearray(file.read(0, file.size()))
    content[position] ^= 1
    file.truncate(0)
    file.append(content)


def test_behind_a_first_segment_without_a_sound_batch_nothing_is_served():
    disk = SimulatedDisk(random.Random(0))
    log = Log.open(disk, "log", LogSettings(segment_bytes=100), now_ms=0)
    for number in range(3):
        append(log, [(b"k", b"%d" % number)])
    assert len(log.segments) == 3
    log.sync()
    disk.kill()
    damaged_at(disk, "log/00000000000000000000.log", 65)
    found = Log.open(disk, "log", now_ms=0)
    assert LogReader().read(found) == []
    assert found.log_end == 0
    assert sum(name.endswith(".damaged") for name in disk.list("log")) == 3


@pytest.mark.parametrize("offset", range(4))
def test_a_read_into_damaged_bytes_says_so(offset):
    disk = SimulatedDisk(random.Random(0))
    log = Log.open(disk, "log", now_ms=0)
    for number in range(4):
        append(log, [(b"k", b"%d" % number)])
    log.close()
    damaged_at(disk, "log/00000000000000000000.log", 65)
    found = Log.open(disk, "log", now_ms=0)
    with pytest.raises(CorruptBatch):
        found.read(offset, 1 << 20)
