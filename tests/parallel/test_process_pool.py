"""The pool of handler processes by itself: whatever a process does, each call is reported once, and as it ended."""

import contextlib
import os
import re
import signal
import time
from collections import Counter

import psutil
import pytest

from seamark.parallel.pools.call import Argument
from seamark.parallel.pools.pool import Mailbox
from seamark.parallel.pools.process_calls import HandlerProcessDied
from seamark.parallel.pools.processes import ProcessPool
from tests.parallel import process_handlers
from tests.soak.parallel_parts import processes
from tests.support.pool_calls import calls_with, drained
from tests.support.waiting import eventually


@pytest.fixture
def make_pool():
    made = []

    def make(handler, concurrency=1, argument=None, kind=ProcessPool):
        mailbox, broken = Mailbox(), []
        pool = kind(handler, argument or Argument(), mailbox, concurrency, broken.append)
        made.append(pool)
        return pool, mailbox, broken

    yield make
    for pool in made:
        pool.close(5.0)


def outcomes(succeeded, failed):
    """By value: None for what ended well, else the name of the error."""
    found = [(call.works[0].record.value, None) for call in succeeded]
    found += [(call.works[0].record.value, type(error).__name__) for call, error in failed]
    return Counter(found)


def pids_of(pool):
    """Of this pool's processes; other tests of the same run may have left some of theirs."""
    return [child.pid for child in list(pool._running.values())]


class SlowPool(ProcessPool):
    """Sends calls only when the process is through with those it has, or long dead."""

    def _next_calls(self, most, *, may_wait):
        time.sleep(0.05)
        return super()._next_calls(most, may_wait=may_wait)


def test_a_call_that_raised_is_a_failure_also_when_a_later_one_kills_the_process(make_pool):
    pool, mailbox, _ = make_pool(process_handlers.raise_or_die, kind=SlowPool)
    pool.start(calls_with([b"fine", b"fine", b"fine", b"raise", b"raise", b"raise", b"die"] * 6))
    found = outcomes(*drained(mailbox, 42, 120))
    assert found == {(b"fine", None): 18, (b"raise", "ValueError"): 18, (b"die", "HandlerProcessDied"): 6}


def test_a_single_call_that_failed_with_its_process_is_told_in_the_singular(make_pool, caplog):
    pool, mailbox, _ = make_pool(process_handlers.raise_or_die)
    pool.start(calls_with([b"die"]))
    drained(mailbox, 1)
    assert "is replaced: 1 call failed, 0 not yet begun run in other processes." in caplog.text


def test_what_a_handler_sets_in_its_context_is_not_seen_by_the_next(make_pool):
    pool, mailbox, _ = make_pool(process_handlers.set_context)
    pool.start(calls_with([b"one", b"two", b"three"]))
    assert len(drained(mailbox, 3)[0]) == 3


def test_an_error_that_cannot_travel_is_told_as_text_and_no_call_is_lost(make_pool):
    pool, mailbox, broken = make_pool(process_handlers.raise_strangely)
    # Long lists one way and long errors the other: neither side may wait for the other to read first.
    headers = (("filling", b"x" * (1 << 20)),)
    pool.start(calls_with([b"fine", b"enormous", b"only at home", b"unspeakable"] * 8, headers))
    succeeded, failed = drained(mailbox, 32, 120)
    assert outcomes(succeeded, failed) == {
        (b"fine", None): 8,
        (b"enormous", "FailedElsewhere"): 8,
        (b"only at home", "FailedElsewhere"): 8,
        (b"unspeakable", "UntellableError"): 8,
    }
    errors = {call.works[0].record.value: error for call, error in failed}
    assert re.search(
        r"Enormous: too much \(only the text of the error is kept: pickled it has 8\d+ bytes",
        str(errors[b"enormous"]),
    )
    assert "in raise_strangely" in errors[b"only at home"].__notes__[0]
    assert "Unspeakable" in str(errors[b"unspeakable"])
    assert not broken


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        # It wrote to the pipe and then returned, but by then it may have been ended: either is true to what happened.
        (b"write", {None, "HandlerProcessDied"}),
        (b"close", {None}),
        (b"close and raise", {"HandlerErrorLost"}),
        (b"replace", {None}),
    ],
)
def test_a_handler_that_spoils_its_pipe_costs_no_other_call(make_pool, tmp_path, caplog, value, outcome):
    file = tmp_path / "notes"
    file.touch()
    pool, mailbox, broken = make_pool(process_handlers.spoil_the_pipe)
    pool.start(calls_with([b"fine", value, b"fine", b"fine"] * 3, (("notes", str(file).encode()),)))
    found = outcomes(*drained(mailbox, 12, 120))
    assert found[b"fine", None] == 9
    assert {error for each, error in found if each == value} <= outcome
    eventually(lambda: "used or closed the pipe to the consumer" in caplog.text, "the log says why")
    assert file.read_bytes() == b""
    assert not broken


def test_a_copy_of_a_process_that_holds_the_pipe_open_does_not_hide_its_death(make_pool, tmp_path):
    file = tmp_path / "notes"
    pool, mailbox, _ = make_pool(process_handlers.leave_a_copy)
    pool.start(calls_with([b"fine", b"copy and die", b"fine"], (("notes", str(file).encode()),)))
    try:
        found = outcomes(*drained(mailbox, 3, 50))
    finally:
        os.kill(int(file.read_text()), signal.SIGKILL)
    assert found == {(b"fine", None): 2, (b"copy and die", "HandlerProcessDied"): 1}


def test_a_copy_of_a_process_never_answers(make_pool):
    values = [b"copy comes back", b"copy raises", b"copy exits", b"fine"]
    pool, mailbox, _ = make_pool(process_handlers.leave_a_copy)
    pool.start(calls_with(values * 5))
    assert outcomes(*drained(mailbox, 20, 60)) == {(value, None): 5 for value in values}
    pool.close(10.0)
    assert not mailbox


def test_a_process_that_was_stopped_is_named_and_ended_with_the_pool(make_pool):
    pool, mailbox, _ = make_pool(process_handlers.stop_itself)
    fine, stopped = calls_with([b"fine", b"stop"])
    pool.start([fine, stopped])
    drained(mailbox, 1, 60)
    (pid,) = pids_of(pool)
    eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "it stopped itself")
    assert pool.stands_at(stopped.works[0]) == f"process {pid}"
    assert pool.stands_at(fine.works[0]) is None
    pool.close(0.1)
    eventually(lambda: not psutil.pid_exists(pid), "the process is ended")


def test_threads_that_a_handler_leaves_behind_hold_up_nothing(make_pool):
    pool, mailbox, _ = make_pool(process_handlers.leave_threads_behind)
    pool.start(calls_with([b"thread that dies", b"thread for ever", b"fine", b"thread that kills", b"fine"]))
    succeeded, failed = drained(mailbox, 5, 60)
    assert outcomes(succeeded, failed) == {
        (b"thread that dies", None): 1,
        (b"thread for ever", None): 1,
        (b"fine", None): 2,
        (b"thread that kills", "HandlerProcessDied"): 1,
    }
    assert "exited with code 9" in str(failed[0][1])


def test_a_process_told_to_end_does_so_with_a_thread_left_behind_and_its_calls_run_elsewhere(make_pool):
    pool, mailbox, _ = make_pool(process_handlers.leave_threads_behind)
    pool.start(calls_with([b"thread for ever"]))
    drained(mailbox, 1, 60)
    (pid,) = pids_of(pool)
    os.kill(pid, signal.SIGTERM)
    pool.start(calls_with([b"fine"]))
    succeeded, _ = drained(mailbox, 1, 60)
    assert len(succeeded) == 1


def test_a_process_whose_exit_code_went_to_other_code_is_seen_to_be_gone(make_pool):
    pool, mailbox, _ = make_pool(process_handlers.stop_itself)
    pool.start(calls_with([b"stop"]))
    eventually(lambda: len(pids_of(pool)) == 1, "it was started")
    (pid,) = pids_of(pool)
    eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "it stopped itself")
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        # Who comes first is a matter of chance; both must do.
        os.waitpid(pid, 0)
    _, ((_, error),) = drained(mailbox, 1, 60)
    assert isinstance(error, HandlerProcessDied)


def test_an_answer_that_stands_for_work_to_be_done_is_a_failure(make_pool):
    pool, mailbox, _ = make_pool(process_handlers.put_work_off)
    pool.start(calls_with([b"fine", b"generator", b"coroutine", b"async generator", b"future", b"map"]))
    succeeded, failed = drained(mailbox, 6, 60)
    assert len(succeeded) == 1
    assert {type(error).__name__ for _, error in failed} == {"WorkNotDone"}
    assert all(", which is not" in str(error) for _, error in failed)


# The soak's part at a sampled count; another seed each would make it another test each time.
def test_no_failure_of_a_process_is_ever_committed_as_done():
    found = processes.run(300, seed=1)
    assert found["ok"], found
    assert found["bad"] > 10


class Unpackable(Argument):
    """Finds that it cannot make columns of some records."""

    is_arrow = True

    def of_works(self, works):
        if works[0].record.value == b"bad":
            raise ValueError("no columns can be made of this")
        return works[0].record.value


def test_a_call_that_cannot_be_sent_to_a_process_fails_alone(make_pool):
    pool, mailbox, broken = make_pool(process_handlers.ignore, argument=Unpackable())
    pool.start(calls_with([b"fine", b"bad", b"fine", b"bad", b"bad", b"fine"]))
    assert outcomes(*drained(mailbox, 6, 60)) == {(b"fine", None): 3, (b"bad", "ValueError"): 3}
    assert not broken


class CannotArrive:
    def __reduce__(self):
        return process_handlers.refuse_to_arrive, ()


class Unreadable(Argument):
    is_arrow = True

    def of_works(self, works):
        return CannotArrive()


def test_calls_that_cannot_be_read_in_the_process_fail_with_the_reason(make_pool):
    pool, mailbox, _ = make_pool(process_handlers.ignore, argument=Unreadable())
    pool.start(calls_with([b"a", b"b", b"c"]))
    _, failed = drained(mailbox, 3, 60)
    assert {str(error) for _, error in failed} == {"this list cannot be read"}


def test_a_pool_that_cannot_start_processes_says_so_again_for_calls_that_come_later(make_pool):
    pool, _, broken = make_pool(process_handlers.HomeLover())
    eventually(lambda: broken, "the pool says that it is broken")
    pool.start(calls_with([b"fine"]))
    assert len(broken) == 2
    assert "stays at home" in broken[1]
