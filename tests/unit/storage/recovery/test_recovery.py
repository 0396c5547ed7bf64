"""Opening: what a crash left, what a stranger left, and what is said about it."""

from __future__ import annotations

import logging

import pytest

from seamark.storage import CorruptBatch, MissingFile, StorageFailed, UnknownFormat
from seamark.storage.recovery.checkpoint import write_checkpoint
from tests.unit.storage.log_readers import batch, read_all

# F13, F15

SEGMENT = "data/topic-0/00000000000000000000"
SIZE = len(batch((b"k0", b"0")))


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.INFO, "seamark.storage")
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def filled(open_log, count: int = 6, **settings):
    log = open_log(**{"segment_bytes": 150} | settings)
    for number in range(count):
        log.append(batch((b"k%d" % number, b"%d" % number)), now_ms=1000, leader_epoch=0)
    return log


def values(log) -> list[bytes]:
    return [record.value for record in read_all(log)]


def change(disk, path: str, position: int, content: bytes) -> None:
    file = disk.open(path)
    whole = bytearray(file.read(0, file.size()))
    whole[position : position + len(content)] = content
    file.truncate(0)
    file.append(whole)


def test_a_new_directory_becomes_an_empty_log(open_log, warnings):
    log = open_log()
    assert (log.log_start, log.log_end, values(log)) == (0, 0, [])
    assert warnings() == []


def test_a_clean_shutdown_is_opened_without_reading_segments(open_log, disk, warnings):
    filled(open_log).close()
    change(disk, SEGMENT + ".log", 70, b"\xff")
    log = open_log()
    assert log.log_end == 6
    assert warnings() == []


def test_damage_after_a_clean_shutdown_is_found_by_the_read_and_cut_by_the_next_opening(open_log, disk, warnings):
    filled(open_log, index_interval_bytes=0).close()
    change(disk, SEGMENT[:-1] + "2.log", 2 * SIZE - 1, b"\xff")
    log = open_log()
    assert read_all(log, from_offset=4)
    assert len(log.read(2, 1 << 20)) == SIZE, "what lies before the damage is served"
    with pytest.raises(CorruptBatch) as caught:
        log.read(3, 1 << 20)
    assert (caught.value.file, caught.value.position) == (SEGMENT[:-1] + "2.log", SIZE)
    log.close()
    assert values(open_log()) == [b"0", b"1", b"2"]
    assert any(
        f"00000000000000000002.log at byte {SIZE}" in message and "truncated" in message for message in warnings()
    )


def test_a_torn_tail_is_cut_and_named(open_log, disk, warnings):
    log = filled(open_log, 3, segment_bytes=1000)
    log.sync()
    disk.open(SEGMENT + ".log").append(batch((b"k", b"torn"))[:40])
    assert values(open_log()) == [b"0", b"1", b"2"]
    assert [
        message for message in warnings() if f"{SEGMENT}.log at byte {3 * SIZE}" in message and "40 bytes" in message
    ]
    assert not [name for name in disk.list("data/topic-0") if name.endswith(".damaged")]


def test_zeros_behind_the_last_batch_are_cut(open_log, disk, warnings):
    filled(open_log, 2, segment_bytes=1000).sync()
    disk.open(SEGMENT + ".log").append(bytes(500))
    assert values(open_log()) == [b"0", b"1"]
    assert len(warnings()) == 1


def test_damage_in_the_middle_cuts_the_log_there_and_keeps_the_rest_aside(open_log, disk, warnings):
    log = filled(open_log)
    log.sync()
    before = disk.open(SEGMENT[:-1] + "4.log").read(0, 1000)
    change(disk, SEGMENT[:-1] + "2.log", 70, b"\xff")
    log = open_log()
    assert (log.log_end, values(log)) == (2, [b"0", b"1"])
    assert sum("kept in" in message for message in warnings()) == 2
    assert disk.open(SEGMENT[:-1] + "4.log.damaged").read(0, 1000) == before
    assert not disk.exists(SEGMENT[:-1] + "2.index")
    assert log.append(batch((b"k", b"new")), now_ms=1000, leader_epoch=0).base_offset == 2


def test_sound_batches_behind_damage_in_the_last_segment_are_kept_aside(open_log, disk, warnings):
    log = filled(open_log, 4, segment_bytes=1000)
    log.sync()
    rest = disk.open(SEGMENT + ".log").read(SIZE, 1000)
    change(disk, SEGMENT + ".log", SIZE + 68, b"\xff")
    assert values(open_log()) == [b"0"]
    damaged = bytearray(rest)
    damaged[68] = 0xFF
    assert disk.open(f"{SEGMENT}.log.{SIZE}.damaged").read(0, 1000) == damaged
    assert "before offset 1" in warnings()[0]


def test_a_missing_segment_is_a_hole_that_ends_the_log(open_log, disk, warnings):
    filled(open_log).sync()
    disk.remove(SEGMENT[:-1] + "2.log")
    log = open_log()
    assert values(log) == [b"0", b"1"]
    assert any("begins at offset 4, but the segment before it ends at 2" in message for message in warnings())


def test_a_missing_first_segment_moves_the_start_and_says_so(open_log, disk, warnings):
    filled(open_log).sync()
    disk.remove(SEGMENT + ".log")
    log = open_log()
    assert (log.log_start, values(log)) == (2, [b"2", b"3", b"4", b"5"])
    assert any("starts at offset 2" in message for message in warnings())


def test_a_missing_last_segment_is_told_from_the_mark_of_the_clean_shutdown(open_log, disk, warnings):
    filled(open_log).close()
    disk.remove(SEGMENT[:-1] + "4.log")
    assert values(open_log()) == [b"0", b"1", b"2", b"3"]
    assert any("closed at offset 6 and ends at 4" in message for message in warnings())


def test_a_missing_index_is_made_again(open_log, disk):
    filled(open_log).close()
    disk.remove(SEGMENT + ".index")
    assert values(open_log()) == [b"%d" % number for number in range(6)]
    assert disk.exists(SEGMENT + ".index")


def test_an_index_of_another_segment_is_not_followed(open_log, disk):
    filled(open_log).close()
    foreign = disk.open(SEGMENT + ".index").read(0, 1000)
    disk.remove(SEGMENT[:-1] + "2.index")
    disk.open(SEGMENT[:-1] + "2.index", create=True).append(foreign)
    assert values(open_log()) == [b"%d" % number for number in range(6)]


def test_an_index_damaged_after_a_clean_shutdown_is_made_again_when_it_is_needed(open_log, disk):
    filled(open_log).close()
    change(disk, SEGMENT + ".index", 80, b"\xff")
    log = open_log()
    assert values(log) == [b"%d" % number for number in range(6)]


def test_foreign_files_stay_and_are_not_read(open_log, disk):
    filled(open_log).close()
    for name in ("notes.txt", "00000000000000000001.timeindex", "abc.log", "5.log", "leader-epoch-checkpoint"):
        disk.open(f"data/topic-0/{name}", create=True).append(b"foreign")
    log = open_log()
    assert values(log) == [b"%d" % number for number in range(6)]
    assert disk.open("data/topic-0/notes.txt").read(0, 100) == b"foreign"
    assert disk.exists("data/topic-0/abc.log")


def test_a_foreign_file_under_a_segments_name_is_taken_out(open_log, disk, warnings):
    disk.mkdir("data/topic-0")
    disk.open(SEGMENT + ".log", create=True).append(
        b"this is a diary, and no log at all; it is longer than any header is"
    )
    log = open_log()
    assert (log.log_end, values(log)) == (0, [])
    assert disk.open(SEGMENT + ".log.damaged").read(0, 9) == b"this is a"
    assert any("is removed from the log" in message for message in warnings())


def test_a_second_damage_does_not_write_over_what_was_kept_of_the_first(open_log, disk):
    for _ in range(2):
        log = filled(open_log, 3, segment_bytes=1000)
        log.sync()
        change(disk, SEGMENT + ".log", 70, b"\xff")
        open_log()
    kept = [name for name in disk.list("data/topic-0") if name.endswith(".damaged")]
    assert len(kept) == 2


def test_another_format_is_refused_in_one_sentence(open_log, disk):
    filled(open_log).close()
    write_checkpoint(disk, "data/topic-0", "format", {"format": 2})
    with pytest.raises(UnknownFormat) as caught:
        open_log()
    assert str(caught.value) == "data/topic-0/format: format 2 is not supported, only 1 is"


def test_segments_without_a_format_mark_are_read_with_a_warning(open_log, disk, warnings):
    filled(open_log).close()
    disk.remove("data/topic-0/format")
    assert len(values(open_log())) == 6
    assert len(warnings()) == 1
    assert disk.exists("data/topic-0/format")


def test_a_disk_that_does_not_answer_is_an_error_and_not_an_empty_log(open_log, disk):
    filled(open_log).close()
    disk.failing = {"open"}
    with pytest.raises(StorageFailed):
        open_log()


def test_a_start_that_outlived_its_records_is_where_the_log_goes_on(open_log, disk):
    log = filled(open_log, 2)
    log.delete_records_before(2)
    log = open_log(disk.after_crash())
    assert (log.log_start, log.log_end) == (2, 2)
    assert log.append(batch((b"k", b"v")), now_ms=1000, leader_epoch=0).base_offset == 2


def test_segments_below_the_start_are_removed(open_log, disk):
    log = filled(open_log)
    log.delete_records_before(5)
    log.close()
    log = open_log()
    assert not disk.exists(SEGMENT + ".log")
    assert (log.log_start, values(log)) == (5, [b"5"])


def test_damage_below_the_start_cuts_nothing(open_log, disk, warnings):
    log = filled(open_log)
    log.sync()
    log.delete_records_before(2)
    change(disk, SEGMENT + ".log", 20, b"\xff")
    assert values(open_log()) == [b"2", b"3", b"4", b"5"]
    assert warnings() == []


def test_an_unfinished_rewrite_is_thrown_away(open_log, disk):
    filled(open_log).close()
    disk.open(SEGMENT + ".cleaned", create=True).append(b"half")
    disk.open("data/topic-0/log-start.tmp", create=True).append(b"half")
    assert len(values(open_log())) == 6
    assert not [name for name in disk.list("data/topic-0") if name.endswith((".cleaned", ".tmp"))]


def test_a_leader_epoch_that_changed_costs_no_record(open_log, disk, warnings):
    log = filled(open_log)
    log.sync()
    change(disk, SEGMENT + ".log", 13, b"\x09")
    assert len(values(open_log())) == 6
    assert any("leader epoch" in message for message in warnings())


def test_a_recovered_log_is_durable(open_log, disk):
    log = filled(open_log, segment_bytes=10_000)
    assert log.durable_end == 0
    # The process ends, the machine does not: all bytes are there, none is synced.
    log = open_log()
    assert log.durable_end == 6
    assert values(open_log(disk.after_crash())) == [b"%d" % number for number in range(6)]


def test_the_file_of_a_segment_that_vanished_while_the_log_was_open_is_missed(open_log, disk):
    log = filled(open_log)
    log.sync()
    disk.remove(SEGMENT + ".log")
    with pytest.raises(MissingFile):
        log.read(0, 100)
