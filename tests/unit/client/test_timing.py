"""Backoff: doubling, bounded, with jitter."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.client.errors import OperationTimedOut
from seamark.client.timing import Deadline, ExponentialBackoff
from seamark.errors import UsageError


def test_waits_double_from_the_start_to_the_limit():
    backoff = ExponentialBackoff(50, 1000, jitter=0)
    assert [backoff.wait_ms(failures) for failures in range(7)] == [0, 50, 100, 200, 400, 800, 1000]


@given(
    start=st.integers(1, 10_000),
    limit=st.integers(0, 100_000),
    failures=st.integers(1, 10_000),
    seed=st.integers(0, 99),
)
def test_a_wait_is_within_the_jitter_and_never_above_the_limit(start, limit, failures, seed):
    wait = ExponentialBackoff(start, limit, random_source=random.Random(seed)).wait_ms(failures)
    plain = ExponentialBackoff(start, limit, jitter=0).wait_ms(failures)
    assert 0.8 * plain <= wait <= min(1.2 * plain, max(start, limit))


def test_clients_that_failed_together_do_not_return_together():
    waits = {ExponentialBackoff(100, 1000, random_source=random.Random(seed)).wait_ms(2) for seed in range(20)}
    assert len(waits) == 20


def test_a_deadline_is_one_point_in_time_for_all_that_wait_for_it():
    now = [100.0]
    deadline = Deadline(2.5, clock=lambda: now[0])
    now[0] = 101.0
    assert deadline.remaining == 1.5
    assert deadline.remaining_ms == 1500
    assert deadline.at_most(1.0) == 1.0
    now[0] = 103.0
    assert deadline.remaining == 0
    with pytest.raises(OperationTimedOut, match=r"looking did not finish within 2\.5 s, last error: no"):
        deadline.check("looking", ValueError("no"))


def test_a_deadline_that_never_comes_fits_into_kafkas_timeouts():
    assert Deadline.never().remaining_ms == 2**31 - 1
    assert not Deadline.never().is_over


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_negative_timeout_is_refused(seconds):
    with pytest.raises(UsageError):
        Deadline(seconds)
