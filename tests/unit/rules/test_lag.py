"""Lag in records and in time: the cases in which the plain difference is wrong."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.rules.lag import Basis, Lag, lag_of, total, total_unfinished
from seamark.rules.time_lag import Sample, age_of, seconds_to_catch_up


# covers: M2
def test_lag_is_the_log_end_minus_the_committed_offset():
    assert lag_of(100, 0, 150).records == 50


# covers: M2
def test_records_deleted_unread_stay_in_the_lag_and_are_named_lost():
    found = lag_of(20, 60, 100)
    assert (found.records, found.lost, found.unfinished) == (80, 40, 40)


def test_a_log_that_was_emptied_unread_is_all_lost():
    found = lag_of(20, 100, 100)
    assert (found.records, found.lost, found.unfinished) == (80, 80, 0)


def test_a_gap_behind_the_log_start_is_not_lost():
    assert lag_of(20, 20, 100).lost == lag_of(20, 5, 100).lost == 0


def test_what_is_done_ahead_is_not_unfinished():
    found = lag_of(20, 0, 100, done_ahead=[(22, 50), (60, 90)])
    assert (found.records, found.done_ahead, found.unfinished) == (80, 58, 22)


def test_what_was_done_ahead_before_it_was_deleted_is_not_lost():
    found = lag_of(20, 60, 100, done_ahead=[(30, 70)])
    assert (found.lost, found.done_ahead, found.unfinished) == (10, 40, 30)


def test_the_lag_of_a_partition_without_a_commit_is_unknown_unless_the_reset_policy_is_given():
    assert lag_of(None, 120, 150) == Lag(None, Basis.NO_COMMIT)
    assert lag_of(None, 120, 150).unfinished is None
    assert [lag_of(None, 120, 150, reset).records for reset in ("earliest", "latest")] == [30, 0]


def test_a_commit_beyond_the_end_has_the_negative_lag_of_kafkas_tool_and_says_how_far():
    found = lag_of(160, 0, 150, done_ahead=[(161, 170)])
    assert (found.records, found.beyond, found.basis) == (-10, 10, Basis.BEYOND)
    assert (found.lost, found.done_ahead, found.unfinished) == (0, 0, 0)


def test_a_sum_leaves_out_what_is_beyond_the_end_or_unknown():
    assert total([lag_of(100, 0, 150), lag_of(190, 0, 150), lag_of(None, 0, 150)]) == 50
    assert total([lag_of(160, 0, 150)]) is None
    assert total_unfinished([lag_of(100, 0, 150, done_ahead=[(101, 150)]), lag_of(160, 0, 150)]) == 1


def test_a_partition_that_does_not_answer_has_an_unknown_lag():
    assert lag_of(100, None, None).records is None


@given(
    committed=st.integers(0, 60),
    log_start=st.integers(0, 60),
    size=st.integers(0, 60),
    done=st.sets(st.integers(0, 120)),
)
def test_the_lag_is_lost_and_done_and_unfinished_offsets_together(committed, log_start, size, done):
    log_end = log_start + size
    done = {offset for offset in done if offset > committed}
    found = lag_of(committed, log_start, log_end, done_ahead=[(offset, offset + 1) for offset in done])
    assert found.records == log_end - committed
    if committed <= log_end:
        behind = set(range(committed, log_end))
        assert found.lost == len({offset for offset in behind - done if offset < log_start})
        assert found.unfinished == len({offset for offset in behind - done if offset >= log_start})
        assert found.lost + found.done_ahead + found.unfinished == found.records


def test_a_producer_whose_clock_runs_ahead_does_not_make_the_lag_negative():
    assert age_of(99_000, 60_000).seconds == 0.0


def test_the_time_to_catch_up_follows_from_both_paces():
    assert seconds_to_catch_up([Sample(0, 0, 1000), Sample(10_000, 60, 1020)]) == 240.0
    assert seconds_to_catch_up([Sample(0, 0, 100), Sample(10_000, 10, 120)]) == math.inf
    assert seconds_to_catch_up([Sample(0, 100, 100)]) == 0.0
    assert seconds_to_catch_up([Sample(0, None, 100)]) is None
    assert seconds_to_catch_up([Sample(0, 50, 100)]) is None


def test_a_fifth_of_a_second_tells_no_pace():
    assert seconds_to_catch_up([Sample(0, 0, 100_000), Sample(200, 300, 100_000)]) is None
    assert seconds_to_catch_up([Sample(0, 0, 100_000), Sample(200, 0, 100_000)]) is None
    assert seconds_to_catch_up([Sample(0, 0, 100_000), Sample(10_000, 300, 100_000)]) == pytest.approx(3323.3, abs=0.1)


@pytest.mark.parametrize("first_lag", [5, 20])
def test_a_group_that_keeps_pace_is_not_said_to_catch_up_or_to_fall_behind(first_lag):
    """It reads 500 from look to look; whether a look finds 5, 10 or 20 unread is chance."""
    looks = [Sample(each * 10_000, each * 500 - first_lag, each * 500) for each in range(1, 7)]
    last = Sample(70_000, 3490, 3500)
    assert seconds_to_catch_up([*looks, last]) is None


def test_deleted_records_need_no_time_to_catch_up_and_an_offset_beyond_the_end_has_none():
    assert seconds_to_catch_up([Sample(0, 20, 100, 90), Sample(10_000, 20, 100, 100)]) == 0.0
    assert seconds_to_catch_up([Sample(0, 20, 100), Sample(10_000, 130, 100)]) is None
