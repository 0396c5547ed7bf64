"""Reading by offset and by time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.storage import Log, LogSettings, MemoryFilesystem, OffsetOutOfRange
from seamark.wire.records import Record, encode_batch, rebase, scan_batches
from tests.unit.storage.log_readers import batch, read_all

# F15


def bases(content: bytes) -> list[int]:
    return [header.base_offset for header, _ in scan_batches(content)]


@pytest.fixture
def log(open_log):
    """Ten batches of two records, 73 bytes each, three to a segment."""
    log = open_log(segment_bytes=260, index_interval_bytes=100)
    for number in range(10):
        log.append(batch((b"k", b"%d" % number), (b"l", b"m")), now_ms=5, leader_epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12, 18]
    return log


def test_a_read_begins_with_the_batch_that_has_the_offset(log):
    assert bases(log.read(0, 1)) == [0]
    assert bases(log.read(1, 1)) == [0]
    assert bases(log.read(2, 1)) == [2]
    assert bases(log.read(5, 1)) == [4]
    assert bases(log.read(19, 1)) == [18]


def test_a_read_has_as_many_whole_batches_as_fit(log):
    size = len(log.read(0, 1))
    assert bases(log.read(0, 2 * size - 1)) == [0]
    assert bases(log.read(0, 2 * size)) == [0, 2]
    assert bases(log.read(0, 2 * size + 1)) == [0, 2]
    assert bases(log.read(1, 3 * size)) == [0, 2, 4]
    assert bases(log.read(3, size)) == [2]


def test_a_read_ends_with_its_segment(log):
    assert bases(log.read(8, 1 << 20)) == [8, 10]


def test_the_first_batch_comes_whatever_its_size(log):
    assert bases(log.read(4, 0)) == [4]


def test_a_read_stops_before_the_end_offset(log):
    assert bases(log.read(0, 1 << 20, end_offset=4)) == [0, 2]
    assert bases(log.read(0, 1 << 20, end_offset=3)) == [0, 2]
    assert bases(log.read(6, 1 << 20, end_offset=9)) == [6, 8]
    assert log.read(4, 1 << 20, end_offset=4) == b""
    assert log.read(4, 1 << 20, end_offset=0) == b""
    assert bases(log.read(12, 1, end_offset=500)) == [12]


def test_nothing_is_read_at_the_end(log):
    assert log.read(20, 1 << 20) == b""


@pytest.mark.parametrize("offset", [-1, 21])
def test_an_offset_outside_of_the_log_is_refused(log, offset):
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(offset, 100)
    assert (caught.value.offset, caught.value.log_start, caught.value.log_end) == (offset, 0, 20)


def test_an_offset_before_the_start_is_refused(log):
    log.delete_records_before(7)
    with pytest.raises(OffsetOutOfRange):
        log.read(6, 100)
    assert bases(log.read(7, 1)) == [6]


def at(*timestamps: int) -> bytes:
    return encode_batch([Record(number, stamp, value=b"v") for number, stamp in enumerate(timestamps)])


@pytest.fixture
def timed(open_log):
    """Timestamps that go back and forth, in three segments: 0 to 3, 4 to 6, 7 on."""
    log = open_log(index_interval_bytes=0)
    for sent in (at(100, 300), at(200, 250)):
        log.append(sent, now_ms=5, leader_epoch=0)
    log.roll(5)
    log.append(at(400, 150, 500), now_ms=5, leader_epoch=0)
    log.roll(5)
    log.append(at(350), now_ms=5, leader_epoch=0)
    return log


@pytest.mark.parametrize(
    ("timestamp_ms", "found"),
    [
        (0, (0, 100)),
        (100, (0, 100)),
        (101, (1, 300)),
        (300, (1, 300)),
        (301, (4, 400)),
        (401, (6, 500)),
        (500, (6, 500)),
        (501, None),
    ],
)
def test_a_time_finds_the_first_record_that_is_not_older(timed, timestamp_ms, found):
    assert timed.offset_for_timestamp(timestamp_ms) == found


def test_a_time_finds_no_record_before_the_start(timed):
    timed.delete_records_before(2)
    assert timed.offset_for_timestamp(100) == (2, 200)
    assert timed.offset_for_timestamp(260) == (4, 400)


def test_the_largest_time_is_found(timed):
    assert timed.max_timestamp() == (6, 500)
    timed.append(at(500, 500), now_ms=5, leader_epoch=0)
    assert timed.max_timestamp() == (6, 500)
    timed.delete_records_before(7)
    assert timed.max_timestamp() == (8, 500)


def test_the_largest_time_behind_the_start_is_found(open_log):
    log = open_log()
    log.append(at(900, 100, 200), now_ms=5, leader_epoch=0)
    log.delete_records_before(1)
    assert log.max_timestamp() == (2, 200)


def test_an_empty_log_has_no_time(open_log):
    log = open_log()
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None


def test_times_are_found_again_after_a_reopening(timed, open_log):
    timed.close()
    log = open_log()
    assert log.offset_for_timestamp(301) == (4, 400)
    assert log.max_timestamp() == (6, 500)


def test_records_without_a_time_have_none(open_log):
    log = open_log()
    log.append(at(-1), now_ms=5, leader_epoch=0)
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None
    assert len(read_all(log)) == 1


@pytest.mark.parametrize("max_bytes", [0, 1, 200, 100_000])
def test_a_read_in_a_gap_begins_with_the_large_batch_behind_it(open_log, max_bytes):
    log = open_log(index_interval_bytes=1)
    log.append(batch((b"a", b"1")), now_ms=5, leader_epoch=0)
    for value in (b"2", b"3", b"4"):
        log.append(batch((b"b", value)), now_ms=5, leader_epoch=0)
    log.append(batch((b"b", b"x" * 500)), now_ms=5, leader_epoch=0)
    log.roll(5)
    log.compact(5)
    assert [record.offset for record in read_all(log)] == [0, 4]
    # Offset 2 is gone: its block is that of offset 0, and what comes next lies behind that block.
    assert bases(log.read(2, max_bytes)) == [4]


# covers: F15
@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 30, 150, 700]), min_size=1, max_size=24),
    interval=st.sampled_from([1, 100, 400, 4096]),
    max_bytes=st.one_of(st.sampled_from([0, 1, 10_000]), st.integers(100, 2500)),
    is_reopened=st.booleans(),
    ask=st.randoms(use_true_random=False),
)
def test_every_read_gives_the_batches_that_a_walk_over_the_whole_log_would(
    sizes, interval, max_bytes, is_reopened, ask
):
    disk = MemoryFilesystem()
    chosen = LogSettings(retention_ms=-1, segment_bytes=3000, index_interval_bytes=interval)
    log = Log.open(disk, "t-0", chosen, now_ms=0)
    stored: list[tuple[int, int, bytes]] = []
    segment_of: list[int] = []
    for size in sizes:
        sent = batch((b"k", b"v" * size), (b"l", b""))
        result = log.append(sent, now_ms=5, leader_epoch=0)
        stored.append((result.base_offset, result.last_offset, rebase(sent, result.base_offset, 0)))
        segment_of.append(len(log.segments))
    if is_reopened:
        log.close()
        log = Log.open(disk, "t-0", chosen, now_ms=0)
    for _ in range(15):
        offset = ask.randrange(log.log_end)
        end_offset = ask.choice([None, ask.randint(0, log.log_end)])
        expected = b""
        for (base, last, content), segment in zip(stored, segment_of, strict=True):
            if last < offset or base >= (log.log_end if end_offset is None else end_offset):
                continue
            first = next(number for number, each in zip(segment_of, stored, strict=True) if each[1] >= offset)
            if segment != first or (expected and len(expected) + len(content) > max_bytes):
                break
            expected += content
        if end_offset is not None and offset >= end_offset:
            expected = b""
        assert log.read_view(offset, max_bytes, end_offset=end_offset) == expected
        assert log.read(offset, max_bytes, end_offset=end_offset) == expected
