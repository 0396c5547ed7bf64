"""What counts as a stall: a frontier that does not move although its record has had a handler that long.

Driven in virtual time, with a look every second as the real owner takes.
"""

import logging

import pytest

from seamark.parallel.core.ports import Committed
from seamark.parallel.core.work import RecordState, WriteDeadLetter
from seamark.parallel.run.report import StallLog
from seamark.parallel.settings import Batch, DeadLetter, Order, Park, Retry
from tests.unit.parallel.test_engine import ONCE, P0, P1, Driver


class Watched(Driver):
    """A driver that looks for stalls while time passes."""

    def look(self, after=60.0):
        return [(stall.partition, stall.offset, round(stall.age, 3)) for stall in self.engine.stalls(self.now, after)]

    def pass_time(self, seconds):
        """The stalls that were seen meanwhile."""
        seen = []
        for _ in range(round(seconds)):
            self.wait(1.0)
            seen += self.look()
        return seen

    def succeed(self, *offsets, partition=P0):
        actions = super().succeed(*offsets, partition=partition)
        self.look()
        return actions

    def holding(self):
        return {stall.partition: stall for stall in self.engine.stalls(self.now, 0.0)}


def test_a_backlog_is_no_stall_however_long_its_records_have_waited():
    driver = Watched(concurrency=2)
    driver.poll(list(range(100)))
    for offset in range(0, 100, 2):
        assert driver.pass_time(4) == []
        driver.succeed(offset, offset + 1)
    assert driver.now == 200.0


def test_a_record_counts_from_the_start_of_its_first_attempt_not_from_its_poll():
    driver = Watched(concurrency=1)
    driver.poll([0, 1])
    assert driver.pass_time(50) == []
    driver.succeed(0)
    assert driver.pass_time(59) == []
    assert driver.pass_time(1) == [(P0, 1, 60.0)]


def test_a_record_that_runs_long_behind_others_counts_from_when_the_frontier_reaches_it():
    driver = Watched(concurrency=2)
    driver.poll([0, 1])
    driver.pass_time(50)
    driver.succeed(0)
    assert driver.pass_time(59) == []
    assert driver.holding()[P0].offset == 1
    assert driver.pass_time(1) == [(P0, 1, 60.0)]


def test_attempts_and_the_waits_between_them_count_from_the_first_attempt():
    driver = Watched(retry=Retry(attempts=5, delay=25, factor=1, max_delay=25, jitter=0))
    driver.poll([0, 1])
    driver.succeed(1)
    for _ in range(2):
        driver.pass_time(1)
        driver.fail(0)
        driver.pass_time(25)
    assert driver.holding()[P0].state is RecordState.RUNNING
    assert driver.pass_time(8) == [(P0, 0, 60.0)]
    driver.fail(0)
    stall = driver.holding()[P0]
    assert (stall.state, stall.attempts, stall.age, stall.error) == (RecordState.RETRYING, 3, 60.0, "ValueError: no")


def test_a_parked_record_and_one_on_its_way_to_the_dead_letter_topic_hold_their_partition_back():
    for then, state in ((Park(), RecordState.PARKED), (DeadLetter(), RecordState.DEAD_LETTERING)):
        driver = Watched(retry=ONCE, then=then)
        driver.poll([0, 1])
        driver.pass_time(10)
        driver.fail(0)
        assert driver.pass_time(50)[-1] == (P0, 0, 60.0)
        assert driver.holding()[P0].state is state


def test_a_dead_letter_that_is_stored_ends_the_stall():
    driver = Watched(retry=ONCE, then=DeadLetter(max_ratio=None))
    driver.poll([0])
    driver.pass_time(61)
    driver.fail(0)
    [letter] = driver.all_of(WriteDeadLetter)
    driver.do("dead_letter_written", letter.work, None)
    assert driver.pass_time(70) == []


def two_partitions(**settings):
    return Watched(committed={P0: Committed(0), P1: Committed(0)}, **settings)


def test_a_record_without_a_handler_is_no_stall_while_other_calls_end():
    driver = two_partitions(concurrency=1)
    driver.engine.stall_watch.has_begun = lambda work: work.partition == P1
    driver.poll([0])
    driver.engine.lanes.concurrency = 2
    for offset in range(40):
        driver.poll([offset], P1)
        assert driver.pass_time(5) == []
        driver.succeed(offset, partition=P1)
    assert driver.holding()[P0].state is RecordState.WAITING


def test_a_record_without_a_handler_is_a_stall_when_no_call_ends():
    driver = two_partitions(concurrency=1)
    driver.poll([0, 1], P1)
    driver.poll([0])
    driver.pass_time(30)
    driver.succeed(0, partition=P1)
    assert driver.pass_time(59) == []
    assert sorted(driver.pass_time(1)) == [(P0, 0, 60.0), (P1, 1, 60.0)]
    states = {stall.state for stall in driver.engine.stalls(driver.now)}
    assert states == {RecordState.RUNNING, RecordState.WAITING}


def test_a_call_that_waits_in_its_pool_counts_as_waiting_until_it_is_begun():
    driver = two_partitions(concurrency=1)
    driver.engine.lanes.concurrency = 2
    begun = set()
    driver.engine.stall_watch.has_begun = lambda work: work in begun
    driver.poll([0], P1)
    driver.poll([0, 1])
    first, second = (driver.calls[partition, 0].works[0] for partition in (P1, P0))
    begun.add(first)
    driver.pass_time(40)
    assert driver.holding()[P0].state is RecordState.WAITING
    driver.succeed(0, partition=P1)
    begun.add(second)
    driver.pass_time(1)
    assert driver.pass_time(59) == []
    assert driver.pass_time(1) == [(P0, 0, 60.0)]


def test_a_batch_that_fills_slowly_is_no_stall():
    driver = Watched(batch=Batch(records=10, wait=300.0))
    driver.poll([0, 1])
    assert driver.pass_time(200) == []
    assert driver.holding()[P0].age == 0.0


def test_a_batch_that_hangs_is_a_stall_from_its_start():
    driver = Watched(batch=Batch(records=2, wait=0.0), order=Order.NONE)
    driver.poll([0, 1, 2])
    assert driver.pass_time(59) == []
    assert driver.pass_time(1) == [(P0, 0, 60.0)]


def test_what_waits_behind_a_hanging_call_that_was_given_up_is_a_stall_though_others_go_on():
    driver = Watched(concurrency=4)
    driver.poll([0, 1, 2], keys=[b"a", b"a", b"b"])
    driver.pass_time(5)
    driver.do("skip", P0, 0)
    driver.look()
    for offset in range(3, 12):
        driver.poll([offset], keys=[b"b"])
        driver.pass_time(6)
        driver.succeed(offset - 1)
    assert driver.pass_time(7)[-1][:2] == (P0, 1)


def test_a_call_that_was_taken_back_unbegun_starts_to_count_again():
    driver = Watched(concurrency=1)
    driver.poll([0])
    call = driver.calls.pop((P0, 0))
    driver.pass_time(50)
    driver.do("withdrawn", [call])
    assert driver.pass_time(59) == []
    assert driver.pass_time(1) == [(P0, 0, 60.0)]


def test_partitions_with_nothing_in_flight_are_no_stall():
    driver = Watched()
    driver.poll([0])
    driver.succeed(0)
    assert driver.pass_time(100) == []
    assert driver.holding() == {}


def test_the_first_record_in_flight_is_named_with_key_age_attempts_and_place():
    driver = Watched(retry=Retry(attempts=9, delay=500.0, max_delay=500.0))
    driver.poll([5, 6, 9], keys=[b"customer-7", None, None])
    driver.pass_time(1)
    driver.fail(5, ValueError("no"))
    driver.now = 65.5
    [stall] = driver.engine.stalls(driver.now)
    assert stall[:6] == (P0, 5, b"customer-7", 65.5, 1, RecordState.RETRYING)
    assert str(stall) == (
        "orders-0 has been held at offset 5 (key b'customer-7') for 65.5 s: waiting for a retry, attempts 1, "
        "last error ValueError: no; 4 offsets behind it"
    )


def test_a_long_key_is_shown_by_its_beginning():
    driver = Watched()
    driver.poll([1], keys=["k" * 500])
    [stall] = driver.engine.stalls(driver.now, 0.0)
    assert len(str(stall)) < 250


class PoolThatHasThemAll:
    def stands_at(self, work):
        return "handlers.py:12 in charge"


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO, "seamark.parallel")
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


def looking(driver, log, seconds):
    for _ in range(round(seconds)):
        driver.wait(1.0)
        log.look(driver.now)


def test_a_stall_is_one_warning_when_it_begins_and_one_line_when_it_ends(logged):
    driver = Watched()
    log = StallLog(driver.engine, PoolThatHasThemAll())
    driver.poll([0, 1, 2])
    looking(driver, log, 300)
    [(level, message)] = logged()
    assert level == "WARNING"
    assert message.startswith("orders-0 has been held at offset 0 (key None) for 60.0 s: running")
    assert message.endswith("its handler is at handlers.py:12 in charge")
    driver.succeed(0, 1, 2)
    looking(driver, log, 100)
    assert logged()[1:] == [("INFO", "orders-0 moves on: offset 0 held it back for 301.0 s")]


def test_a_stall_that_ends_because_its_partition_goes_says_so(logged):
    driver = Watched()
    log = StallLog(driver.engine, PoolThatHasThemAll())
    driver.poll([0])
    looking(driver, log, 61)
    driver.do("lost", [P0])
    looking(driver, log, 1)
    assert logged()[1:] == [
        ("INFO", "orders-0 is no longer assigned to this consumer: offset 0 held it back for 62.0 s")
    ]


def test_a_busy_partition_warns_of_nothing(logged):
    driver = Watched(concurrency=2)
    log = StallLog(driver.engine, PoolThatHasThemAll())
    driver.poll(list(range(200)))
    for offset in range(0, 200, 2):
        looking(driver, log, 1)
        driver.succeed(offset, offset + 1)
    assert logged() == []
