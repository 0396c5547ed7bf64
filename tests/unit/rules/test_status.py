"""What state a partition is said to be in, with the healthy look-alikes that other tools report."""

import pytest

from seamark.rules.status import Patience, Status, partition_status, rewind_after, worst
from seamark.rules.time_lag import Sample


def looks(*pairs, every_s=20):
    return [Sample(index * every_s * 1000, committed, end) for index, (committed, end) in enumerate(pairs)]


def status(*pairs, is_active=True, **more):
    return partition_status(looks(*pairs), is_active=is_active, **more)


def test_a_group_that_has_read_everything_is_ok_whatever_came_before():
    assert status((0, 100), (0, 100), (0, 100), (0, 100), (100, 100)) is Status.OK


def test_an_offset_that_stands_while_there_is_something_to_read_is_a_stall_or_a_stop():
    standing = [(50, 100), (50, 110), (50, 120), (50, 130)]
    assert status(*standing) is Status.STALLED
    assert status(*standing, is_active=False) is Status.STOPPED


def test_a_partition_that_never_had_a_commit_can_stand_too():
    assert status((None, 10), (None, 10), (None, 10), (None, 10)) is Status.STALLED


def test_a_slow_topic_whose_last_record_just_came_is_no_stall():
    assert status((100, 100), (100, 101)) is Status.UNKNOWN
    assert status((99, 99), (100, 100), (100, 100), (100, 100), (100, 101)) is Status.OK


def test_an_offset_that_went_back_is_a_rewind_until_it_has_come_up_again():
    mark = None
    for earlier, committed in ((None, 90), (90, 10), (10, 40), (40, 20), (20, 89)):
        mark = rewind_after(mark, earlier, Sample(0, committed, 100))
        assert mark == (None if committed == 90 else 90)
    standing = [(60, 100)] * 10
    assert status(*standing, rewound_from=90) is Status.REWOUND, "however long ago that was"
    assert rewind_after(mark, 89, Sample(0, 90, 100)) is None
    assert status((90, 100), (10, 100), (60, 100), (95, 100)) is Status.OK


def test_a_rewind_lasts_while_nothing_is_committed_and_ends_where_a_new_log_does():
    assert rewind_after(90, 10, Sample(0, None, 100)) == 90
    assert rewind_after(90, 0, Sample(0, 7, 8)) == 90
    assert rewind_after(90, 7, Sample(0, 8, 8)) is None


def test_a_lag_that_grows_although_it_is_read_is_slow():
    assert status((10, 20), (20, 60), (30, 100), (40, 140)) is Status.SLOW


def test_a_steady_or_tiny_lag_is_ok():
    assert status((10, 20), (50, 60), (90, 100), (130, 141)) is Status.OK
    assert status((10, 20), (20, 60), (30, 100), (40, 140), patience=Patience(records=200)) is Status.OK


def test_a_commit_beyond_the_end_is_named_first():
    assert status((10, 20), (30, 20)) is Status.BEYOND


def test_records_deleted_unread_are_named_before_the_standstill_that_cost_them():
    samples = [Sample(index * 20_000, 20, 100, 60, lost=40) for index in range(5)]
    assert partition_status(samples, is_active=False) is Status.LOST


def test_a_log_without_records_is_no_stall_whatever_was_committed():
    for committed in (None, 100):
        samples = [Sample(index * 20_000, committed, 100, 100) for index in range(5)]
        assert partition_status(samples, is_active=True) is Status.OK
    # What was deleted had been done ahead.
    samples = [Sample(index * 20_000, 20, 100, 100) for index in range(5)]
    assert partition_status(samples, is_active=True) is Status.OK


def test_too_few_looks_are_no_verdict():
    assert partition_status([], is_active=True) is Status.UNKNOWN
    assert status((0, 10)) is Status.UNKNOWN


@pytest.mark.parametrize("state", list(Status))
def test_the_worst_part_decides_for_the_whole(state):
    assert worst([Status.OK, state]) is state
