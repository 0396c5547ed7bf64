"""What lifetimes found in the log, each as a small script: failures and power losses at one chosen moment."""

import random

import pytest

from seamark.simulation.broker.log_checks import LogReader
from seamark.simulation.world.disk import Crashed, SimulatedDisk
from seamark.storage import Log, LogSettings, StorageFailed
from seamark.wire.records import Record, encode_batch

SETTINGS = LogSettings(segment_bytes=200)


def a_disk(seed=0):
    return SimulatedDisk(random.Random(seed))


def opened(disk):
    return Log.open(disk, "log", SETTINGS, now_ms=0)


def append(log, key, value):
    log.append(encode_batch([Record(0, 1, key=key, value=value)]), 1, 0)


def values(log):
    return [record.value for record in LogReader().read(log)]


def last_values(log):
    return {record.key: record.value for record in LogReader().read(log)}


# F7: whatever fails during a compaction, reads go on and give the same last values
@pytest.mark.parametrize("operation", range(60))
def test_a_compaction_that_fails_anywhere_leaves_the_log_readable(operation):
    disk = a_disk()
    log = opened(disk)
    for number in range(12):
        append(log, b"k%d" % (number % 3), b"v%d" % number)
    log.roll(2)
    log.sync()
    expected = last_values(log)
    remaining = operation

    def fail_once(*_):
        nonlocal remaining
        remaining -= 1
        if remaining == -1:
            raise StorageFailed("somewhere", None, "input/output error")

    for name in ("before_sync", "before_truncate", "before_append"):
        setattr(disk, name, fail_once)
    disk.is_faulty = True
    try:
        for _ in log.compaction_steps(3):
            pass
    except StorageFailed:
        pass
    finally:
        disk.is_faulty = False
    assert last_values(log) == expected
    assert last_values(opened(disk)) == expected


def test_an_old_index_that_comes_back_after_a_power_loss_takes_no_records_with_it():
    kept = set()
    for seed in range(40):
        disk = a_disk(seed)
        opened(disk).close()
        log = opened(disk)
        append(log, b"first", b"x" * 150)
        log.sync()
        append(log, b"second", b"y" * 150)
        assert len(log.segments) == 2
        disk.stop()
        disk.lose_power()
        found = opened(disk)
        assert found.log_start == 0
        kept.add(len(values(found)))
        assert values(found)[0] == b"x" * 150
    assert kept == {1, 2}


def test_nothing_is_served_behind_a_segment_whose_bytes_are_lost():
    for seed in range(60):
        disk = a_disk(seed)
        log = opened(disk)
        written = [b"%d" % number * 150 for number in range(4)]
        for number, value in enumerate(written):
            append(log, b"%d" % number, value)
        disk.stop()
        disk.lose_power()
        found = opened(disk)
        assert values(found) == written[: found.log_end]


@pytest.mark.parametrize("is_power_loss", [False, True])
def test_a_crash_at_any_operation_of_an_opening_is_healed_by_the_next(is_power_loss):
    for operation in range(30):
        disk = a_disk(operation)
        log = opened(disk)
        for number in range(6):
            append(log, b"k%d" % (number % 2), b"v%d" % number)
        log.sync()
        append(log, b"tail", b"maybe")
        disk.stop()
        disk.lose_power()
        disk.arm(crash_countdown=operation)
        try:
            opened(disk)
        except Crashed:
            if is_power_loss:
                disk.lose_power()
            else:
                disk.kill()
        disk.arm()
        assert values(opened(disk))[:6] == [b"v%d" % number for number in range(6)]
