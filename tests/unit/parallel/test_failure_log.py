"""Failed attempts in the log: the first of a kind in full, the others as a count, and nothing is left untold."""

import logging

import pytest

from seamark.parallel.actions import StartCall
from seamark.parallel.failure_log import INTERVAL_S, FailureLog
from seamark.parallel.work import Where
from tests.unit.parallel.lane_cases import work


@pytest.fixture
def messages(caplog):
    caplog.set_level(logging.INFO, "seamark.parallel")
    return lambda: caplog.messages


def fail(log, now, offset, error=None, where=Where.RETRYING, attempts=1, **keywords):
    each = work(offset)
    each.where, each.attempts = where, attempts
    log.failed(StartCall([each]), error or ValueError("no"), now, is_stopping=keywords.get("is_stopping", False))


def find_account():
    raise ValueError("no such account")


def test_the_first_of_a_kind_is_told_with_its_traceback(messages, caplog):
    log = FailureLog()
    with pytest.raises(ValueError, match="no such") as raised:
        find_account()
    fail(log, 0.0, 7, raised.value)
    assert messages() == ["orders-0 offset 7 failed (attempt 1): ValueError: no such account; it is tried again"]
    assert "in find_account" in caplog.text


def test_repeats_are_counted_and_told_once_per_interval(messages):
    log = FailureLog()
    for offset in range(100):
        fail(log, 0.0, offset)
        log.look(0.0)
    log.look(INTERVAL_S - 0.1)
    assert len(messages()) == 1
    log.look(INTERVAL_S)
    assert messages()[1:] == [
        "99 more with ValueError; it is tried again. The last: orders-0 offset 99 failed (attempt 1): ValueError: no"
    ]


def test_a_kind_that_pauses_for_an_interval_is_told_in_full_again(messages):
    log = FailureLog()
    fail(log, 0.0, 1)
    fail(log, 1.0, 2)
    log.look(INTERVAL_S)
    log.look(2 * INTERVAL_S)
    fail(log, 3 * INTERVAL_S, 3)
    assert len(messages()) == 3
    assert "offset 3 failed" in messages()[-1]


def test_other_errors_and_other_outcomes_are_kinds_of_their_own(messages):
    log = FailureLog()
    fail(log, 0.0, 1)
    fail(log, 0.0, 2, KeyError("k"))
    fail(log, 0.0, 1, where=Where.PARKED, attempts=5)
    fail(log, 0.0, 3, where=Where.PARKED, attempts=6, is_stopping=True)
    fail(log, 0.0, 4, where=Where.OVER)
    fail(log, 0.0, 5, where=Where.DEAD_LETTERING)
    outcomes = [message.rpartition("; ")[2] for message in messages()]
    assert outcomes == [
        "it is tried again",
        "it is tried again",
        "it is parked",
        "the consumer stops",
        "it is skipped",
        "it is written to the dead-letter topic",
    ]


def test_a_batch_is_told_as_one(messages):
    log = FailureLog()
    log.failed(StartCall([work(1), work(2), work(3)]), ValueError("no"), 0.0, is_stopping=False)
    assert messages() == [
        "orders-0 offset 1 and 2 more records of its batch failed: ValueError: no; its records are run one by one"
    ]


def test_what_was_counted_is_told_at_the_end(messages):
    log = FailureLog()
    fail(log, 0.0, 1)
    fail(log, 0.1, 2)
    log.dead_letter_written(work(2), "orders.dead-letters", ValueError("no"), 0.2)
    log.dead_letter_written(work(3), "orders.dead-letters", ValueError("no"), 0.3)
    log.close()
    assert messages()[1:] == [
        "orders-0 offset 2 was given up: ValueError: no; written to orders.dead-letters",
        "1 more with ValueError; it is tried again. The last: orders-0 offset 2 failed (attempt 1): ValueError: no",
        "1 more with ValueError; written to orders.dead-letters. "
        "The last: orders-0 offset 3 was given up: ValueError: no",
    ]
