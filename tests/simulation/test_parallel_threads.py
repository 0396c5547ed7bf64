"""Threads in virtual time: one runs at a time, waits end in the order of their moments, nothing outlives the end."""

import logging
import threading
from queue import Empty

import pytest

from seamark.simulation.parallel.threads import Condition, Program, Threads, WakeQueue


@pytest.fixture
def threads():
    made = Threads(lambda: 0)
    yield made
    made.close()


def test_waits_end_in_the_order_of_their_moments_and_time_is_virtual(threads):
    seen = []

    def body(name, seconds):
        for _ in range(2):
            threads.wait(seconds)
            seen.append((threads.now_ms, name))

    program = Program()
    threads.start(program, lambda: body("slow", 7.0))
    threads.start(program, lambda: body("quick", 5.0))
    threads.call_at(6_000, lambda: seen.append((threads.now_ms, "event")))
    threads.run_until(60_000)
    assert seen == [(5_000, "quick"), (6_000, "event"), (7_000, "slow"), (10_000, "quick"), (14_000, "slow")]
    assert threads.now_ms == 60_000
    assert program.threads == []


def test_a_thread_that_is_woken_does_not_wait_on(threads):
    seen = []
    thread = threads.start(Program(), lambda: (threads.wait(100.0), seen.append(threads.now_ms)))
    threads.call_at(3_000, lambda: threads.wake(thread))
    threads.run_until(200_000)
    assert seen == [3_000]


def test_a_crash_ends_threads_where_they_wait_and_a_freeze_holds_them_up(threads):
    seen = []

    def body(name):
        try:
            threads.wait(5.0)
            seen.append((threads.now_ms, name))
        finally:
            seen.append((threads.now_ms, f"{name} ended"))

    crashing, freezing = Program(), Program()
    threads.start(crashing, lambda: body("crashed"))
    threads.start(freezing, lambda: body("frozen"))
    threads.call_at(1_000, lambda: threads.end(crashing))
    freezing.frozen_until_ms = 9_000
    threads.run_until(20_000)
    assert seen == [(1_000, "crashed ended"), (14_000, "frozen"), (14_000, "frozen ended")]


def fail():
    raise ValueError("an event")


@pytest.mark.parametrize("is_event", [True, False])
def test_what_an_event_or_a_thread_raises_ends_the_run(threads, is_event):
    ended = []

    def waiting():
        try:
            threads.wait()
        finally:
            ended.append(True)

    threads.start(Program(), waiting)
    if is_event:
        threads.call_at(10, fail)
    else:
        threads.start(Program(), fail)
    with pytest.raises(ValueError, match="an event"):
        threads.run_until(1_000)
    threads.close()
    assert ended == [True]


def test_events_can_be_kept_to_the_thread_that_runs_the_lifetime():
    threads = Threads(lambda: 0, events_on_main=True)
    seen = []
    for _ in range(3):
        threads.start(Program(), lambda: [threads.wait(0.01) for _ in range(5)])
    for moment in range(0, 60, 3):
        threads.call_at(moment, lambda: seen.append(threading.current_thread()))
    threads.run_until(1_000)
    threads.close()
    assert len(seen) == 20
    assert set(seen) == {threading.current_thread()}


def test_queues_conditions_and_joins_wait_in_virtual_time(threads):
    seen, ended = [], []
    queue = WakeQueue(threads, lambda is_woken: ended.append(is_woken))
    condition = Condition(threads)
    is_open = []

    def owner():
        with pytest.raises(Empty):
            queue.get(timeout=2.0)
        queue.get(timeout=9.0)
        assert not condition.wait_for(lambda: bool(is_open), 1.0)
        assert condition.wait_for(lambda: bool(is_open), 9.0)
        seen.append(threads.now_ms)
        other.join(0.5)
        assert not other.is_over
        other.join(60.0)
        seen.append(threads.now_ms)

    other = threads.start(Program(), lambda: threads.wait(20.0))
    threads.start(Program(), owner)
    threads.call_at(4_000, lambda: queue.put(None))
    threads.call_at(7_000, lambda: (is_open.append(True), condition.notify_all()))
    threads.run_until(60_000)
    assert seen == [7_000, 20_000]
    assert ended == [False, True]


def test_what_simulated_threads_log_is_not_shown(threads, caplog):
    log = logging.getLogger("seamark.parallel")
    threads.start(Program(), lambda: log.warning("of a simulated member"))
    threads.run_until(10)
    log.warning("of a real one")
    assert [record.getMessage() for record in caplog.records] == ["of a real one"]
