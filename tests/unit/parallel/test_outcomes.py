"""What becomes of a failed record: tried again with growing delays, then stopped at, kept elsewhere or skipped."""

import pytest

from seamark.errors import ConfigError
from seamark.parallel.core.outcomes import (
    FailureRatio,
    ParkRecord,
    RetryQueue,
    RunAgain,
    SendToDeadLetters,
    SkipRecord,
    StopConsumer,
    decide,
    delay_before,
)
from seamark.parallel.settings import DeadLetter, Park, Retry, Skip, Stop
from tests.unit.parallel.lane_cases import work


def failed(attempts):
    each = work(7)
    each.attempts = attempts
    return each


def verdict(attempts, error=None, retry=None, then=None, parked_count=0, chance=0.0):
    retry = retry or Retry(attempts=3)
    return decide(failed(attempts), error or ValueError("bad"), retry, then or Stop(), lambda: chance, parked_count)


def test_delays_grow_to_their_limit_and_jitter_only_shortens_them():
    retry = Retry(attempts=9, delay=0.2, factor=2, max_delay=1.0, jitter=0.5)
    assert [delay_before(retry, attempts, 0.0) for attempts in range(1, 6)] == [0.2, 0.4, 0.8, 1.0, 1.0]
    assert delay_before(retry, 1, 1.0) == pytest.approx(0.1)
    assert delay_before(Retry(factor=10.0, jitter=0), 100_000, 0.5) == 30.0


def test_a_record_is_run_as_often_as_the_policy_says():
    assert verdict(1) == RunAgain(0.2)
    assert verdict(2) == RunAgain(0.4)
    assert isinstance(verdict(3), StopConsumer)


def test_stopping_names_the_record_and_the_error():
    assert verdict(3).reason == "orders-0 offset 7 failed 3 times: ValueError: bad"
    assert verdict(1, retry=Retry(attempts=1)).reason == "orders-0 offset 7 failed once: ValueError: bad"


def test_an_exception_type_may_have_its_own_policy_and_the_most_derived_wins():
    retry = Retry(
        attempts=2, by_type={OSError: Retry(attempts=9, delay=5, jitter=0), TimeoutError: None, Exception: Retry()}
    )
    assert verdict(4, ConnectionError("gone"), retry) == RunAgain(30.0)
    assert isinstance(verdict(1, TimeoutError("slow"), retry), StopConsumer)
    assert isinstance(verdict(4, KeyError("k"), retry), RunAgain)
    assert isinstance(verdict(2, SystemExit(3), retry), StopConsumer)


def test_a_handler_that_exits_is_a_failure_like_any_other():
    assert isinstance(verdict(1, SystemExit(0)), RunAgain)
    assert isinstance(verdict(1, KeyboardInterrupt()), RunAgain)


def test_what_follows_the_last_attempt_is_what_was_asked_for():
    assert verdict(3, then=DeadLetter(topic="dead.{topic}")) == SendToDeadLetters("dead.orders")
    assert verdict(3, then=Skip()) == SkipRecord()
    assert verdict(3, then=Park(records=2), parked_count=1) == ParkRecord()
    stopped = verdict(3, then=Park(records=2), parked_count=2)
    assert stopped.reason.startswith("2 records already parked, and orders-0 offset 7 failed")


def test_when_nearly_everything_is_given_up_the_consumer_stops():
    ratio = FailureRatio(DeadLetter(max_ratio=0.5, window=10))
    for _ in range(9):
        ratio.ended(is_given_up=True)
        assert ratio.exceeded() is None
    ratio.succeeded(1)
    assert ratio.exceeded() == "9 of the last 10 records were given up, more than the limit of 50%"
    ratio.succeeded(4)
    assert ratio.exceeded() is None
    ratio.ended(is_given_up=True)
    ratio.ended(is_given_up=True)
    assert ratio.exceeded() is None
    ratio.succeeded(10**9)
    assert ratio.exceeded() is None


def test_without_a_limit_nothing_is_counted():
    for then in (Stop(), Park(), Skip(max_ratio=None)):
        ratio = FailureRatio(then)
        for _ in range(1000):
            ratio.ended(is_given_up=True)
        assert ratio.exceeded() is None


def test_retries_come_out_when_they_are_due_in_order():
    queue = RetryQueue()
    records = [failed(1) for _ in range(4)]
    for due, each in zip((3.0, 1.0, 2.0, 1.0), records, strict=True):
        queue.add(due, each)
    assert queue.next_at() == 1.0
    assert queue.take_due(0.9) == []
    assert queue.take_due(2.0) == [records[1], records[3], records[2]]
    assert queue.drop(lambda each: each is records[0]) == [records[0]]
    assert (len(queue), queue.next_at()) == (0, None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(attempts=0),
        lambda: Retry(attempts=True),
        lambda: Retry(delay=-1),
        lambda: Retry(delay=float("nan")),
        lambda: Retry(max_delay=float("inf")),
        lambda: Retry(factor=0.5),
        lambda: Retry(jitter=1.5),
        lambda: Retry(by_type={int: None}),
        lambda: Retry(by_type={ValueError: 3}),
        lambda: DeadLetter(topic=""),
        lambda: DeadLetter(topic="{group}.dead"),
        lambda: DeadLetter(max_ratio=2),
        lambda: Skip(window=0),
        lambda: Park(records=0),
    ],
)
def test_a_policy_that_cannot_be_is_refused_when_it_is_made(make):
    with pytest.raises(ConfigError):
        make()
