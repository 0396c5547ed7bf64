"""Failed attempts in the log: the first of a kind in full, the others as a count, and nothing is left untold."""

import logging

import pytest

from seamark.parallel.core.columns import RowRecord, batch_of_records
from seamark.parallel.core.ports import PolledColumns
from seamark.parallel.core.work import FailedCall, RecordState
from seamark.parallel.run import failure_log
from seamark.parallel.run.failure_log import INTERVAL_S, FailureLog
from seamark.parallel.settings import Batch, Order, Retry, Skip
from tests.unit.parallel.lane_cases import work
from tests.unit.parallel.test_engine import P0, Driver


@pytest.fixture
def messages(caplog):
    caplog.set_level(logging.INFO, "seamark.parallel")
    return lambda: caplog.messages


def fail(log, now, offset, error=None, state=RecordState.RETRYING, attempts=1, **keywords):
    call = FailedCall(work(offset), keywords.get("count", 1), state, attempts)
    log.failed(call, error or ValueError("no"), now, is_stopping=keywords.get("is_stopping", False))


def find_account():
    raise ValueError("no such account")


def test_the_first_of_a_kind_is_told_with_its_traceback(messages, caplog):
    log = FailureLog()
    with pytest.raises(ValueError, match="no such") as raised:
        find_account()
    fail(log, 0.0, 7, raised.value)
    assert messages() == ["orders-0 offset 7 failed (attempt 1): ValueError: no such account; it is retried"]
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
        "99 more failed with ValueError; they are retried. Last: orders-0 offset 99 failed (attempt 1): ValueError: no"
    ]


@pytest.mark.parametrize(
    ("state", "one", "many"),
    [
        (RecordState.OVER, "it is skipped", "they are skipped"),
        (RecordState.PARKED, "it is parked", "they are parked"),
        (RecordState.WAITING, "its records run one by one", "their records run one by one"),
    ],
)
def test_repeats_are_told_in_the_plural_and_an_error_without_text_by_its_type(messages, state, one, many):
    log = FailureLog()
    for offset in range(3):
        fail(log, 0.0, offset, TimeoutError(), state)
    log.look(INTERVAL_S)
    assert messages() == [
        f"orders-0 offset 0 failed (attempt 1): TimeoutError; {one}",
        f"2 more failed with TimeoutError; {many}. Last: orders-0 offset 2 failed (attempt 1): TimeoutError",
    ]


def test_every_outcome_has_its_plural():
    assert {*failure_log._OUTCOMES.values(), failure_log._COMMITTED_BEFORE, failure_log._AFTER_A_RESTART} == set(
        failure_log._OUTCOMES_OF_REPEATS
    )


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
    fail(log, 0.0, 1, state=RecordState.PARKED, attempts=5)
    fail(log, 0.0, 3, state=RecordState.PARKED, attempts=6, is_stopping=True)
    fail(log, 0.0, 4, state=RecordState.OVER)
    fail(log, 0.0, 5, state=RecordState.DEAD_LETTERING)
    outcomes = [message.rpartition("; ")[2] for message in messages()]
    assert outcomes == [
        "it is retried",
        "it is retried",
        "it is parked",
        "the consumer stops",
        "it is skipped",
        "it is written to the dead-letter topic",
    ]


def test_a_batch_is_told_as_one(messages):
    log = FailureLog()
    fail(log, 0.0, 1, count=3, state=RecordState.WAITING, attempts=0)
    assert messages() == [
        "orders-0 offset 1 and 2 more records of its batch failed: ValueError: no; its records run one by one"
    ]


def outcome_of(driver, messages, *, is_at_most_once=False):
    """What the log says when the first call of the engine fails."""
    call = next(iter(driver.calls.values()))
    driver.do("failed", call, ValueError("no"))
    log = FailureLog(is_at_most_once=is_at_most_once)
    log.failed(driver.engine.last_failure, ValueError("no"), 0.0, is_stopping=driver.engine.is_stopping)
    [message] = messages()
    return message


def polled_columns(*offsets, **settings):
    pytest.importorskip("pyarrow")
    driver = Driver(batch=Batch(5, wait=0.0, arrow=True), order=Order.NONE, then=Skip(max_ratio=None), **settings)
    rows = batch_of_records([RowRecord("orders", 0, offset, b"k", b"v", (), 0) for offset in offsets])
    driver.do("polled_columns", PolledColumns(P0, rows, list(offsets)))
    return driver


def test_one_row_of_columns_that_is_skipped_is_told_as_skipped(messages):
    driver = polled_columns(7, retry=Retry(attempts=1))
    assert outcome_of(driver, messages) == "orders-0 offset 7 failed (attempt 1): ValueError: no; it is skipped"


def test_columns_that_fail_are_run_row_by_row(messages):
    assert outcome_of(polled_columns(7, 8), messages).endswith("; its records run one by one")


def test_columns_that_fail_at_most_once_are_told_as_skipped(messages):
    driver = polled_columns(7, 8, delivery="at_most_once")
    assert driver.committed_by(driver.actions) == {P0: 9}
    message = outcome_of(driver, messages, is_at_most_once=True)
    assert message.startswith("orders-0 offset 7 and 1 more records of its batch failed (attempt 1)")
    assert message.endswith("; they are skipped")


@pytest.mark.parametrize("make", [polled_columns, lambda *offsets: polled(*offsets, batch=Batch(5, wait=0.0))])
def test_a_batch_whose_partition_has_gone_is_told_to_be_the_next_owners(make, messages):
    driver = make(7, 8)
    driver.do("lost", [P0])
    assert outcome_of(driver, messages).endswith("; their partition was revoked, so its next owner runs them")


def polled(*offsets, **settings):
    driver = Driver(order=Order.NONE, **settings)
    driver.poll(list(offsets))
    return driver


def test_a_record_that_is_tried_again_at_once_is_told_as_such(messages):
    driver = polled(7, retry=Retry(attempts=2, delay=0))
    assert outcome_of(driver, messages).endswith("; it is retried")


def test_what_fails_while_the_consumer_stops_is_told_to_run_after_a_restart(messages):
    driver = polled(7, retry=Retry(attempts=2, delay=1.0))
    driver.do("stop")
    assert outcome_of(driver, messages).endswith("; it is not committed and runs again after a restart")


def test_at_most_once_nobody_runs_what_was_lost_with_its_partition(messages):
    log = FailureLog(is_at_most_once=True)
    fail(log, 0.0, 7, state=RecordState.RUNNING)
    assert messages()[0].endswith("; it was committed before it ran and its partition was revoked, so it is lost")


def test_what_was_counted_is_told_at_the_end(messages):
    log = FailureLog()
    fail(log, 0.0, 1)
    fail(log, 0.1, 2)
    log.dead_letter_written(work(2), "orders.dead-letters", ValueError("no"), 0.2)
    log.dead_letter_written(work(3), "orders.dead-letters", ValueError("no"), 0.3)
    log.close()
    assert messages()[1:] == [
        "orders-0 offset 2 was given up: ValueError: no; written to orders.dead-letters",
        "1 more failed with ValueError; it is retried. Last: orders-0 offset 2 failed (attempt 1): ValueError: no",
        "1 more failed with ValueError; written to orders.dead-letters. "
        "Last: orders-0 offset 3 was given up: ValueError: no",
    ]
