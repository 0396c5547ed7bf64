"""Lag in records and in time: the cases in which the plain difference is wrong."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.rules.lag import Basis, lag_of
from seamark.rules.time_lag import Anchor, Sample, seconds_to_catch_up, time_lag


# covers: M2
def test_lag_is_the_log_end_minus_the_committed_offset():
    assert lag_of(100, 0, 150).records == 50


def test_a_commit_below_the_log_start_counts_what_can_still_be_read_and_names_the_lost():
    found = lag_of(100, 120, 150)
    assert (found.records, found.lost, found.basis) == (30, 20, Basis.LOG_START)


@pytest.mark.parametrize(("reset", "records"), [("earliest", 30), ("latest", 0)])
def test_a_partition_without_a_commit_is_counted_by_the_reset_policy(reset, records):
    assert lag_of(None, 120, 150, reset).records == records
    assert lag_of(None, 120, 150, reset).basis is Basis.RESET


def test_a_commit_beyond_the_end_is_no_negative_lag():
    found = lag_of(160, 0, 150)
    assert (found.records, found.beyond) == (0, 10)


def test_a_partition_that_does_not_answer_has_an_unknown_lag():
    assert lag_of(100, None, None).records is None


def test_a_record_whose_time_is_known_gives_its_exact_age():
    found = time_lag(7, 10, 60_000, [Anchor(7, 15_000)])
    assert (found.seconds, found.error, found.method) == (45.0, 0.0, "read")


def test_without_anything_known_below_the_age_is_a_lower_bound():
    found = time_lag(5, 10, 60_000, [Anchor(8, 30_000)])
    assert (found.seconds, found.error, found.method) == (30.0, math.inf, "at least")


def test_a_producer_whose_clock_runs_ahead_does_not_make_the_lag_negative():
    assert time_lag(5, 10, 60_000, [Anchor(5, 99_000)]).seconds == 0.0


@given(
    steps=st.lists(st.integers(0, 5_000), min_size=1, max_size=60),
    after_ms=st.integers(0, 10_000),
    shown=st.sets(st.integers(0, 59)),
    asked=st.integers(0, 59),
)
def test_the_true_age_lies_within_the_stated_error(steps, after_ms, shown, asked):
    times = [sum(steps[: index + 1]) for index in range(len(steps))]
    now_ms = times[-1] + after_ms
    asked %= len(times)
    anchors = [Anchor(offset, times[offset]) for offset in shown if offset < len(times)]
    found = time_lag(asked, len(times), now_ms, anchors)
    true = (now_ms - times[asked]) / 1000
    if found.method == "at least":
        assert found.seconds <= true + 1e-9
    else:
        assert abs(found.seconds - true) <= found.error + 1e-9


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
