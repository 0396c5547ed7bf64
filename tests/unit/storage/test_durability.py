"""What a log promises when the disk is slow, full or failing."""

from __future__ import annotations

import logging

import pytest

from seamark.storage import DiskFull, Durability, StorageFailed, WritesStopped
from tests.unit.storage.log_readers import batch, read_all

# F8, F28


def test_only_a_sync_moves_the_durable_end(open_log):
    log = open_log()
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    assert (log.durable_end, log.log_end) == (0, 1)
    log.sync()
    assert log.durable_end == 1


@pytest.mark.parametrize(("durability", "acknowledged"), [(Durability.OS, 2), (Durability.COMMIT, 1)])
def test_the_durability_says_what_may_be_acknowledged(open_log, durability, acknowledged):
    log = open_log(durability=durability)
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    log.sync()
    log.append(batch((b"a", b"2")), now_ms=5, leader_epoch=0)
    assert log.acknowledged_end == acknowledged


def test_a_synced_log_has_nothing_to_sync(open_log):
    log = open_log()
    assert log.begin_sync() is None
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    log.sync()
    assert log.begin_sync() is None


def test_a_sync_covers_what_was_appended_before_it_began(open_log):
    log = open_log(segment_bytes=150)
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    pending = log.begin_sync()
    for _ in range(4):
        log.append(batch((b"a", b"2")), now_ms=5, leader_epoch=0)
    pending.run()
    log.finish_sync(pending)
    assert (log.durable_end, log.log_end) == (1, 5)
    log.sync()
    assert log.durable_end == 5


def test_syncs_that_end_out_of_order_do_not_move_the_durable_end_back(open_log):
    log = open_log()
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    first = log.begin_sync()
    log.append(batch((b"a", b"2")), now_ms=5, leader_epoch=0)
    second = log.begin_sync()
    for pending in (second, first):
        pending.run()
        log.finish_sync(pending)
    assert log.durable_end == 2


def test_a_sync_may_run_after_its_segments_went(open_log):
    log = open_log(segment_bytes=100, retention_bytes=0)
    for _ in range(3):
        log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    pending = log.begin_sync()
    assert log.retain(5) == 3
    pending.run()
    log.finish_sync(pending)
    assert log.durable_end == 3


def test_what_was_synced_survives_a_crash_and_the_rest_may_not(open_log, disk):
    log = open_log(segment_bytes=100)
    for number in range(6):
        log.append(batch((b"a", b"%d" % number)), now_ms=5, leader_epoch=0)
        if number == 3:
            log.sync()
    found = read_all(open_log(disk.after_crash()))
    assert 4 <= len(found) <= 6
    assert [record.value for record in found] == [b"%d" % number for number in range(len(found))]


def test_a_full_disk_refuses_the_write_and_takes_it_when_there_is_room(open_log, disk):
    log = open_log()
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    disk.room_bytes = 30
    with pytest.raises(DiskFull):
        log.append(batch((b"a", b"2")), now_ms=5, leader_epoch=0)
    assert log.log_end == 1
    assert [record.value for record in read_all(log)] == [b"1"]
    disk.room_bytes = None
    assert log.append(batch((b"a", b"3")), now_ms=5, leader_epoch=0).base_offset == 1
    log.close()
    assert [record.value for record in read_all(open_log())] == [b"1", b"3"]


def test_a_full_disk_leaves_the_log_as_it_was_when_a_segment_should_begin(open_log, disk):
    log = open_log(segment_bytes=100)
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    disk.failing = {"open"}
    with pytest.raises(StorageFailed):
        log.append(batch((b"a", b"2")), now_ms=5, leader_epoch=0)
    disk.failing = set()
    assert len(log.segments) == 1
    assert log.append(batch((b"a", b"2")), now_ms=5, leader_epoch=0).base_offset == 1
    assert len(log.segments) == 2


def test_a_failed_write_that_cannot_be_undone_stops_writes_and_not_reads(open_log, disk):
    log = open_log()
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    log.sync()
    disk.room_bytes = 30
    disk.failing = {"truncate"}
    with pytest.raises(DiskFull):
        log.append(batch((b"a", b"2")), now_ms=5, leader_epoch=0)
    disk.room_bytes, disk.failing = None, set()
    with pytest.raises(WritesStopped, match="until the log is opened again"):
        log.append(batch((b"a", b"2")), now_ms=5, leader_epoch=0)
    assert [record.value for record in read_all(log)] == [b"1"]
    log.close()
    again = open_log()
    assert again.append(batch((b"a", b"3")), now_ms=5, leader_epoch=0).base_offset == 1
    assert [record.value for record in read_all(again)] == [b"1", b"3"]


@pytest.mark.parametrize("call", ["sync", "sync_directory"])
def test_a_failed_sync_stops_writes_even_if_the_next_one_would_succeed(open_log, disk, call):
    log = open_log(segment_bytes=100)
    for _ in range(2):
        log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    disk.failing = {call}
    with pytest.raises(StorageFailed):
        log.sync()
    disk.failing = set()
    assert log.durable_end == 0
    assert log.writes_stopped is not None
    for refused in (
        log.sync,
        lambda: log.append(batch((b"a", b"2")), now_ms=5, leader_epoch=0),
        lambda: log.roll(5),
        lambda: log.retain(5),
        lambda: log.delete_records_before(1),
        lambda: log.compact(5),
    ):
        with pytest.raises(WritesStopped):
            refused()
    assert len(read_all(log)) == 2
    log.close()
    assert not disk.exists(f"{log.directory}/clean-shutdown")


def test_a_sync_that_failed_on_another_thread_is_told_to_the_log(open_log, disk):
    log = open_log()
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    pending = log.begin_sync()
    disk.failing = {"sync"}
    with pytest.raises(StorageFailed) as caught:
        pending.run()
    log.finish_sync(pending, caught.value)
    assert log.durable_end == 0
    with pytest.raises(WritesStopped):
        log.append(batch((b"a", b"2")), now_ms=5, leader_epoch=0)


def test_an_index_that_cannot_be_written_is_only_a_warning(open_log, disk, caplog):
    log = open_log(segment_bytes=100)
    for _ in range(2):
        log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    disk.room_bytes = 0
    with caplog.at_level(logging.WARNING, "seamark.storage"):
        log.sync()
    assert "no index was written" in caplog.text
    assert log.durable_end == 2
    disk.room_bytes = None
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    assert len(read_all(open_log(disk.after_crash()))) >= 2


def test_a_sync_that_an_earlier_log_began_says_nothing_about_the_one_opened_in_its_place(open_log, disk):
    before = open_log()
    before.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    pending = before.begin_sync()
    log = open_log()
    log.append(batch((b"b", b"2")), now_ms=5, leader_epoch=0)
    durable_end = log.durable_end
    log.finish_sync(pending, StorageFailed("somewhere", None, "input/output error"))
    assert log.writes_stopped is None
    pending.end_offset = 100
    log.finish_sync(pending)
    assert log.durable_end == durable_end
