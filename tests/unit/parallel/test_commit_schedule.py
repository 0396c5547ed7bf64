"""A failed commit is tried again by the next run; a committer that cannot compute stops the schedule and says so."""

import logging

import pytest

from seamark.errors import ClosedError, ConfigError, UsageError
from seamark.parallel.core.commit_schedule import CommitDue, PeriodicCommits
from seamark.parallel.core.committer import OffsetCommitter
from seamark.parallel.core.frontier import BrokenPromise
from seamark.parallel.settings import Commit


class ManualTimer:
    def __init__(self):
        self.started = None
        self.function = None

    def start(self, delay, function, name):
        self.started = delay, name
        self.function = function

    def stop(self):
        self.function = None


class Publisher:
    def __init__(self):
        self.published = []
        self.fails = 0

    def __call__(self, decisions):
        if self.fails:
            self.fails -= 1
            raise OSError("the coordinator moved")
        self.published.append({decision.key: decision.offset for decision in decisions})


@pytest.fixture
def parts():
    committer = OffsetCommitter()
    committer.assigned("p", 1, 0)
    publisher, timer, broken = Publisher(), ManualTimer(), []
    periodic = PeriodicCommits(committer, publisher, timer, period=2.5, on_broken=broken.append)
    return committer, publisher, timer, broken, periodic


# covers: H1, H27
def test_start_schedules_the_run_with_a_fixed_delay_under_a_name(parts):
    committer, publisher, timer, _, periodic = parts
    periodic.start()
    periodic.start()
    assert timer.started == (2.5, "seamark-committer")
    committer.in_flight("p", 1, [0, 1])
    timer.function()
    committer.done("p", 1, [0])
    timer.function()
    assert publisher.published == [{"p": 0}, {"p": 1}]


# covers: H1, H27
def test_shutdown_commits_once_more_and_ends_the_schedule(parts):
    committer, publisher, timer, _, periodic = parts
    periodic.start()
    committer.in_flight("p", 1, [0])
    committer.done("p", 1, [0])
    periodic.shutdown()
    periodic.shutdown()
    assert publisher.published == [{"p": 1}]
    assert timer.function is None
    with pytest.raises(ClosedError):
        periodic.start()
    committer.in_flight("p", 1, [1])
    periodic.run()
    assert publisher.published == [{"p": 1}]


# covers: H25
def test_a_run_whose_commit_fails_is_logged_and_the_next_one_says_it_again(parts, caplog):
    committer, publisher, timer, broken, periodic = parts
    periodic.start()
    committer.in_flight("p", 1, [0])
    committer.done("p", 1, [0])
    publisher.fails = 1
    with caplog.at_level(logging.ERROR):
        timer.function()
    assert "Committing 1 offset failed" in caplog.text
    assert (publisher.published, periodic.failed_runs, broken) == ([], 1, [])
    timer.function()
    assert publisher.published == [{"p": 1}]


# covers: H25
def test_a_committer_that_cannot_compute_stops_visibly(parts):
    committer, publisher, timer, broken, periodic = parts
    periodic.start()
    committer.in_flight("p", 1, [5])
    committer.in_flight("p", 1, [4])
    with pytest.raises(BrokenPromise):
        timer.function()
    assert [type(error) for error in broken] == [BrokenPromise]
    assert publisher.published == []
    periodic.run()
    assert publisher.published == []


def test_the_same_offset_is_not_sent_again(parts):
    committer, publisher, timer, _, periodic = parts
    periodic.start()
    committer.in_flight("p", 1, [0])
    timer.function()
    timer.function()
    assert publisher.published == [{"p": 0}]


def test_a_period_of_nothing_is_refused():
    with pytest.raises(UsageError, match="above 0"):
        PeriodicCommits(OffsetCommitter(), print, ManualTimer(), period=0, on_broken=print)


# covers: I10
def test_a_commit_is_due_after_the_interval_or_the_records_whichever_comes_first():
    due = CommitDue(Commit(interval=1.0, records=100), now=10.0)
    assert not due.is_due(10.9)
    assert due.is_due(11.0)
    due.records = 99
    assert not due.is_due(10.5)
    due.records = 100
    assert due.is_due(10.5)
    due.committed(10.5)
    assert not due.is_due(11.4)
    assert due.next_at() == 11.5
    assert CommitDue(Commit(interval=1.0), 0).is_due(1.0)


def test_a_policy_that_cannot_be_is_refused_when_it_is_made():
    for keywords in ({"interval": 0}, {"records": 0}, {"metadata_length": 40_000}, {"on_commit": 3}):
        with pytest.raises(ConfigError):
            Commit(**keywords)
