"""A process that may open no further file for a while: calls fail, nothing is lost, and later ones work again."""

from __future__ import annotations

import pytest

from seamark.storage import Log, LogSettings, TooManyOpenFiles
from tests.unit.storage.crashing_disk import CrashingDisk
from tests.unit.storage.log_readers import batch, read_all

DIRECTORY = "data/topic-0"
SETTINGS = LogSettings(segment_bytes=200, retention_ms=-1)
KEYS = [b"%d" % (number % 3) for number in range(12)]


def put_all(disk: CrashingDisk, log: Log, left: int | None) -> int:
    """Append all records and compact, each with only so many descriptors; return how often there were too few."""
    failures = 0
    for number, key in enumerate(KEYS):
        for _ in range(2):
            disk.descriptors_left = left
            try:
                if log.log_end == number:
                    log.append(batch((key, b"%d" % number)), now_ms=5, leader_epoch=0)
                log.sync()
                log.compact(5)
            except TooManyOpenFiles:
                failures += 1
                left = None
        if failures and number % 4 == 3:
            # There is a shortage again, so that it comes while the log has something to write.
            left = 0
    disk.descriptors_left = None
    return failures


@pytest.mark.parametrize("left", range(12))
def test_a_log_loses_nothing_and_stops_at_nothing_when_files_cannot_be_opened(open_log, disk, left):
    log = open_log(segment_bytes=200)
    assert put_all(disk, log, left) > 0
    assert log.writes_stopped is None
    log.sync()
    log.compact(5)
    assert log.log_end == len(KEYS)
    found = {record.key: record.value for record in read_all(log)}
    assert found == {b"0": b"9", b"1": b"10", b"2": b"11"}
    # What was acknowledged as synced outlives the power, whatever was refused in between.
    survivor = Log.open(disk.after_crash(), DIRECTORY, SETTINGS, now_ms=5)
    assert {record.key: record.value for record in read_all(survivor)} == found


@pytest.mark.parametrize("left", range(8))
def test_a_log_that_could_not_be_opened_is_opened_later(open_log, disk, left):
    log = open_log(segment_bytes=200)
    put_all(disk, log, None)
    del log
    disk.descriptors_left = left
    try:
        open_log(segment_bytes=200)
    except TooManyOpenFiles:
        disk.descriptors_left = None
    found = {record.key: record.value for record in read_all(open_log(segment_bytes=200))}
    assert found == {b"0": b"9", b"1": b"10", b"2": b"11"}


def test_what_waits_for_a_sync_waits_for_the_next_one(open_log, disk):
    log = open_log()
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    log.roll(5)
    pending = log.begin_sync()
    disk.descriptors_left = 0
    with pytest.raises(TooManyOpenFiles) as caught:
        pending.run()
    log.finish_sync(pending, caught.value)
    assert log.writes_stopped is None
    assert log.durable_end == 0
    disk.descriptors_left = None
    log.sync()
    assert log.durable_end == 1
