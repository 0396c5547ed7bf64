"""Appending: offsets, what is refused, and when a segment ends."""

from __future__ import annotations

import pytest

from seamark.errors import BadChecksum, BadLength, ClosedError, OutOfRange, Truncated, UnknownVersion
from seamark.storage import MemoryFilesystem
from seamark.storage.errors import WritesStopped
from seamark.wire.records import Record, decode_batch, encode_batch, read_header, rebase
from tests.unit.storage.log_readers import batch, read_all

# F4, F32


def test_offsets_are_given_in_order_and_told(open_log):
    log = open_log()
    assert log.append(batch((b"a", b"1"), (b"b", b"2")), now_ms=5, leader_epoch=7) == (0, 1, -1)
    assert log.append(batch((b"c", b"3")), now_ms=5, leader_epoch=7) == (2, 2, -1)
    assert (log.log_start, log.log_end) == (0, 3)
    assert [(record.offset, record.key) for record in read_all(log)] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_stored_batch_is_the_producers_with_offset_and_epoch_set(open_log):
    log = open_log()
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=7)
    sent = batch((b"b", b"2"), producer_id=9, producer_epoch=1, base_sequence=4)
    log.append(sent, now_ms=5, leader_epoch=8)
    assert log.read(1, 1000) == rebase(sent, 1, 8)


def test_several_batches_are_one_append(open_log):
    log = open_log()
    sent = batch((b"a", b"1"), (b"b", b"2")) + batch((b"c", b"3"))
    assert log.append(memoryview(sent), now_ms=5, leader_epoch=0) == (0, 2, -1)
    assert [record.offset for record in read_all(log)] == [0, 1, 2]


def test_the_callers_bytes_are_left_as_they_were(open_log):
    log = open_log()
    sent = bytearray(batch((b"a", b"1")))
    before = bytes(sent)
    log.append(sent, now_ms=5, leader_epoch=3)
    log.append(sent, now_ms=5, leader_epoch=3)
    assert sent == before


def flipped(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", Truncated),
        (batch((b"a", b"1"))[:60], Truncated),
        (batch((b"a", b"1"))[:-1], Truncated),
        (batch((b"a", b"1")) + b"\x00", Truncated),
        (flipped(batch((b"a", b"1")), 65), BadChecksum),
        (flipped(batch((b"a", b"1")), 16), UnknownVersion),
        (encode_batch([], base_offset=0, last_offset=0), BadLength),
    ],
    ids=["nothing", "half a header", "half a batch", "a byte too many", "bad crc", "bad magic", "no record"],
)
@pytest.mark.parametrize("log_append_time", [False, True])
def test_bytes_that_are_not_whole_batches_are_refused_and_leave_nothing(open_log, sent, error, log_append_time):
    log = open_log(log_append_time=log_append_time)
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    with pytest.raises(error):
        log.append(batch((b"b", b"2")) + sent if sent else sent, now_ms=5, leader_epoch=0)
    assert log.log_end == 1
    assert len(read_all(log)) == 1


# covers: F4, F32
def test_a_batch_of_ones_own_is_stored_as_it_is(open_log):
    made, plain = open_log(), open_log(MemoryFilesystem())
    for number in range(3):
        sent = batch((b"a", b"%d" % number), (b"b", b"2"))
        plain.append(sent, now_ms=5, leader_epoch=7)
        base_offset = made.log_end
        stamp = read_header(sent).max_timestamp_ms
        made.append_prebuilt(rebase(sent, base_offset, 7), base_offset + 2, stamp, now_ms=5)
    assert made.read(0, 10_000) == plain.read(0, 10_000)
    assert (made.log_end, made.size, made.max_timestamp()) == (plain.log_end, plain.size, plain.max_timestamp())
    made.close()
    assert open_log().read(0, 10_000) == plain.read(0, 10_000)


def test_a_batch_of_ones_own_is_refused_by_a_log_that_takes_no_writes(open_log):
    log = open_log()
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    log.stop_writes("on purpose")
    with pytest.raises(WritesStopped, match="on purpose"):
        log.append_prebuilt(rebase(batch((b"b", b"2")), 1, 0), 2, 5, now_ms=5)
    assert log.log_end == 1


def test_bytes_that_were_given_away_are_not_copied(open_log):
    log = open_log()
    given = bytearray(batch((b"a", b"1")))
    log.append(memoryview(given), now_ms=5, leader_epoch=7, in_place=True)
    assert log.read(0, 1000) == given
    assert read_header(given).partition_leader_epoch == 7


@pytest.mark.parametrize("in_place", [False, True])
def test_damaged_bytes_are_refused_whether_copied_or_not(open_log, in_place):
    log = open_log()
    sent = bytearray(batch((b"a", b"1")))
    sent[-1] ^= 1
    with pytest.raises(BadChecksum):
        log.append(memoryview(sent), now_ms=5, leader_epoch=0, in_place=in_place)
    assert (log.log_end, log.size) == (0, 0)


def test_a_leader_epoch_that_does_not_fit_is_refused(open_log):
    log = open_log()
    with pytest.raises(OutOfRange):
        log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=2**31)
    assert log.log_end == 0


def test_under_log_append_time_records_have_the_brokers_time(open_log):
    log = open_log(log_append_time=True)
    assert log.append(batch((b"a", b"1"), timestamp_ms=77) * 2, now_ms=5000, leader_epoch=0) == (0, 1, 5000)
    content = log.read(0, 1000)
    assert read_header(content).timestamp_type == 1
    assert [record.timestamp_ms for record in decode_batch(content)] == [5000]


def test_a_segment_ends_before_it_grows_over_its_size(open_log):
    log = open_log(segment_bytes=200)
    for number in range(5):
        log.append(batch((b"k", b"%d" % number)), now_ms=5, leader_epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert all(segment.size <= 200 for segment in log.segments)
    assert len(read_all(log)) == 5


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(open_log):
    log = open_log(segment_bytes=100)
    log.append(batch((b"k", b"x" * 500)), now_ms=5, leader_epoch=0)
    log.append(batch((b"k", b"1")), now_ms=5, leader_epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_segment_ends_when_it_is_old_enough(open_log):
    log = open_log(segment_ms=100)
    log.append(batch((b"k", b"1")), now_ms=1000, leader_epoch=0)
    log.append(batch((b"k", b"2")), now_ms=1099, leader_epoch=0)
    assert len(log.segments) == 1
    log.append(batch((b"k", b"3")), now_ms=1100, leader_epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_an_old_but_empty_segment_does_not_end(open_log):
    log = open_log(segment_ms=100)
    log.append(batch((b"k", b"1")), now_ms=9000, leader_epoch=0)
    assert len(log.segments) == 1


def test_the_age_of_a_segment_survives_a_reopening(open_log):
    log = open_log(segment_ms=100)
    log.append(batch((b"k", b"1"), timestamp_ms=1000), now_ms=1000, leader_epoch=0)
    log.close()
    log = open_log(segment_ms=100, now_ms=1050)
    log.append(batch((b"k", b"2")), now_ms=1099, leader_epoch=0)
    assert len(log.segments) == 1
    log.append(batch((b"k", b"2")), now_ms=1100, leader_epoch=0)
    assert len(log.segments) == 2


def test_a_segment_whose_records_come_from_the_future_is_as_old_as_its_opening(open_log):
    log = open_log(segment_ms=100)
    log.append(batch((b"k", b"1"), timestamp_ms=1 << 50), now_ms=1000, leader_epoch=0)
    log.close()
    log = open_log(segment_ms=100, now_ms=5000)
    log.append(batch((b"k", b"2")), now_ms=5099, leader_epoch=0)
    assert len(log.segments) == 1
    log.append(batch((b"k", b"2")), now_ms=5100, leader_epoch=0)
    assert len(log.segments) == 2


def test_a_segment_ends_before_its_offsets_outgrow_an_int32(open_log):
    log = open_log()
    wide = encode_batch([Record(0, 1, value=b"v")], base_offset=0, last_offset=2**30 - 1)
    for _ in range(3):
        log.append(wide, now_ms=1000, leader_epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]


def test_rolling_an_empty_log_changes_nothing(open_log):
    log = open_log()
    log.roll(5)
    assert [segment.base_offset for segment in log.segments] == [0]


def test_a_closed_log_does_nothing_more(open_log):
    log = open_log()
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    log.close()
    log.close()
    for call in (
        lambda: log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0),
        lambda: log.read(0, 100),
        lambda: log.sync(),
        lambda: log.retain(5),
        lambda: log.compact(5),
        lambda: log.delete_records_before(1),
    ):
        with pytest.raises(ClosedError):
            call()


def test_a_deleted_log_is_gone_with_its_directory(open_log, disk):
    log = open_log()
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    log.delete()
    assert not disk.exists(log.directory)


def test_deletion_leaves_what_is_not_the_logs(open_log, disk):
    log = open_log()
    disk.open(f"{log.directory}/notes.txt", create=True).append(b"mine")
    log.delete()
    assert disk.list(log.directory) == ["notes.txt"]
