"""What goes because it is old, too much, or below the start."""

from __future__ import annotations

import pytest

from seamark.errors import ConfigError
from seamark.storage import LogSettings, OffsetOutOfRange
from seamark.storage.settings import Durability
from tests.unit.storage.log_readers import batch, read_all

# F29 stands on it for offsets; the log has no rule of its own for groups


def filled(open_log, **settings):
    """Segments of two records, a record a second from 1000 ms on."""
    log = open_log(**{"segment_bytes": 150} | settings)
    for number in range(6):
        stamp = 1000 * (number + 1)
        log.append(batch((b"k", b"%d" % number), timestamp_ms=stamp), now_ms=stamp, leader_epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    return log


def offsets(log) -> list[int]:
    return [record.offset for record in read_all(log)]


def test_segments_go_when_their_last_record_is_too_old(open_log):
    log = filled(open_log, retention_ms=3000)
    assert log.retain(5000) == 0
    assert log.retain(5001) == 1
    assert (log.log_start, offsets(log)) == (2, [2, 3, 4, 5])
    assert log.retain(7001) == 1
    assert log.log_start == 4


def test_the_segment_that_is_written_to_goes_too_when_all_of_it_is_old(open_log):
    log = filled(open_log, retention_ms=3000)
    assert log.retain(60_000) == 3
    assert (log.log_start, log.log_end, offsets(log)) == (6, 6, [])
    assert log.append(batch((b"k", b"v")), now_ms=60_000, leader_epoch=0).base_offset == 6


def test_a_young_segment_keeps_older_ones_behind_it(open_log):
    log = open_log(retention_ms=3000)
    for stamp in (9000, 1000, 1000):
        log.append(batch((b"k", b"v"), timestamp_ms=stamp), now_ms=9000, leader_epoch=0)
        log.roll(9000)
    assert log.retain(9500) == 0


def test_records_without_a_time_are_as_old_as_their_append(open_log):
    log = open_log(retention_ms=3000)
    log.append(batch((b"k", b"v"), timestamp_ms=-1), now_ms=5000, leader_epoch=0)
    assert log.retain(8000) == 0
    assert log.retain(8001) == 1


def test_segments_go_while_more_than_enough_bytes_are_left(open_log):
    size = filled(open_log).segments[0].size
    log = open_log(retention_bytes=2 * size + size // 2, segment_bytes=150)
    assert log.retain(5000) == 0
    log.settings = LogSettings(retention_ms=-1, retention_bytes=2 * size)
    assert log.retain(5000) == 1
    assert log.log_start == 2


def test_without_limits_nothing_goes(open_log):
    log = filled(open_log)
    assert log.retain(1 << 50) == 0


def test_segments_below_the_start_go(open_log, disk):
    log = filled(open_log)
    log.delete_records_before(3)
    assert log.retain(5000) == 1
    assert not disk.exists("data/topic-0/00000000000000000000.log")
    assert (log.log_start, offsets(log)) == (3, [3, 4, 5])


def test_the_start_never_moves_back(open_log):
    log = filled(open_log)
    assert log.delete_records_before(3) == 3
    assert log.delete_records_before(1) == 3
    assert log.log_start == 3


@pytest.mark.parametrize("offset", [-1, 7])
def test_a_start_outside_of_the_log_is_refused(open_log, offset):
    log = filled(open_log)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records_before(offset)
    assert log.log_start == 0


def test_the_start_is_durable_when_the_call_returns(open_log, disk):
    log = filled(open_log)
    log.sync()
    log.delete_records_before(3)
    assert open_log(disk.after_crash()).log_start == 3


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_while_segments_go_leaves_no_hole(open_log, disk, seed):
    disk.rng.seed(seed)
    log = filled(open_log, retention_ms=3000)
    log.sync()
    log.retain(7001)
    log = open_log(disk.after_crash())
    assert (log.log_start, offsets(log)) == (4, [4, 5])


def test_nothing_goes_while_a_compaction_is_under_way(open_log):
    log = filled(open_log, retention_ms=3000)
    log.sync()
    steps = log.compaction_steps(7001)
    next(steps)
    assert log.retain(7001) == 0
    steps.close()
    assert log.retain(7001) == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("segment_bytes", 0),
        ("segment_ms", 0),
        ("retention_ms", -2),
        ("retention_bytes", "many"),
        ("delete_retention_ms", -1),
        ("compaction_max_keys", 0),
        ("index_interval_bytes", True),
        ("min_cleanable_dirty_ratio", 1.5),
        ("durability", "os"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(option, value):
    with pytest.raises(ConfigError) as caught:
        LogSettings(**{option: value})
    assert caught.value.option == option.replace("_", ".")
    assert caught.value.value == value


def test_the_defaults_are_kafkas():
    settings = LogSettings()
    assert settings.segment_bytes == 1073741824
    assert settings.segment_ms == settings.retention_ms == 604800000
    assert settings.retention_bytes == -1
    assert settings.delete_retention_ms == 86400000
    assert settings.durability is Durability.OS
