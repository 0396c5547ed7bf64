"""One named thread that calls again after a delay, and ends when told or when the call fails."""

import logging
import threading

import pytest

from seamark.errors import UsageError
from seamark.parallel.core.commit_schedule import PeriodicCommits
from seamark.parallel.core.committer import OffsetCommitter
from seamark.parallel.run.thread_timer import ThreadTimer


# covers: H1, H21, H27
def test_a_committer_runs_on_one_named_thread_until_it_is_shut_down():
    committer = OffsetCommitter()
    committer.assigned("p", 1, 0)
    published, has_published, names = [], threading.Event(), set()

    def publish(decisions):
        names.add(threading.current_thread().name)
        published.extend(decision.offset for decision in decisions)
        has_published.set()

    periodic = PeriodicCommits(committer, publish, ThreadTimer(), period=0.001, on_broken=print, name="the-committer")
    periodic.start()
    committer.in_flight("p", 1, [0, 1])
    committer.done("p", 1, [0])
    assert has_published.wait(10)
    assert names == {"the-committer"}
    committer.done("p", 1, [1])
    periodic.shutdown()
    assert published[-1] == 2
    assert "the-committer" not in {thread.name for thread in threading.enumerate()}


def test_a_call_that_fails_is_logged_and_ends_the_calls(caplog):
    calls = []

    def fail():
        calls.append(1)
        raise RuntimeError("cannot go on")

    timer = ThreadTimer()
    with caplog.at_level(logging.ERROR):
        timer.start(0.001, fail, "the-failing-one")
        timer._thread.join(10)
    timer.stop()
    assert calls == [1]
    assert "the-failing-one ends." in caplog.text
    with pytest.raises(UsageError, match="started before"):
        timer.start(1, fail, "again")
