"""When a commit is due, and what its answer means: a refused one is said again, nothing is said twice."""

import pytest

from seamark.errors import ConfigError
from seamark.parallel.core.commits import GIVE_UP_AFTER_S, CommitDue, CommitTickets
from seamark.parallel.core.committer import OffsetCommitter
from seamark.parallel.core.frontier import InvariantViolation
from seamark.parallel.settings import Commit
from seamark.topic_partition import TopicPartition

P = TopicPartition("t", 0)


class Schedule:
    """Runs when a commit is due, as the engine does; ``sent`` has the offsets of each."""

    def __init__(self, **policy):
        self.committer = OffsetCommitter(metadata_length=0)
        self.committer.assigned(P, 1, 0)
        self.tickets = CommitTickets(self.committer, Commit(**policy), now=0.0)
        self.sent = []
        self.error = None

    def run(self, now):
        if self.tickets.is_due(now):
            self.commit(now)

    def commit(self, now):
        action = self.tickets.make(now)
        if action is not None:
            self.sent.append({partition: each.offset for partition, each in action.offsets.items()})
            return self.tickets.finished(action.ticket, dict.fromkeys(action.offsets, self.error), now)
        return None


@pytest.fixture
def schedule():
    return Schedule(interval=2.5)


# covers: H1, H27
def test_a_commit_is_made_after_each_interval_and_not_before(schedule):
    schedule.committer.in_flight(P, 1, [0, 1])
    schedule.run(2.4)
    assert schedule.sent == []
    schedule.run(2.5)
    schedule.committer.done(P, 1, [0])
    schedule.run(4.9)
    schedule.run(5.0)
    assert schedule.sent == [{P: 0}, {P: 1}]


# covers: H1, H27
def test_the_last_commit_is_made_whenever_it_is_asked_for(schedule):
    schedule.committer.in_flight(P, 1, [0])
    schedule.committer.done(P, 1, [0])
    schedule.commit(0.1)
    schedule.commit(0.1)
    assert schedule.sent == [{P: 1}]


# covers: H25
def test_a_refused_commit_is_said_again_by_the_next_run(schedule):
    schedule.committer.in_flight(P, 1, [0])
    schedule.committer.done(P, 1, [0])
    schedule.error = OSError("the coordinator moved")
    schedule.run(2.5)
    tickets = schedule.tickets
    assert (tickets.refused, tickets.accepted, str(tickets.last_error)) == (1, 0, "the coordinator moved")
    assert tickets.failing_for(3.5) == 1.0
    schedule.error = None
    schedule.run(5.0)
    assert schedule.sent == [{P: 1}, {P: 1}]
    assert (tickets.refused, tickets.accepted, tickets.failing_for(5.0)) == (1, 1, 0.0)


# covers: H25
def test_commits_that_are_refused_for_too_long_are_a_reason_to_stop(schedule):
    schedule.committer.in_flight(P, 1, [0])
    schedule.error = OSError("no such group")
    assert schedule.commit(1.0) is None
    reason = schedule.commit(1.0 + GIVE_UP_AFTER_S)
    assert "no commit was accepted for 300 s" in reason.text
    assert reason.cause is schedule.error


# covers: H25
def test_a_committer_that_cannot_compute_says_so_for_good(schedule):
    schedule.committer.in_flight(P, 1, [5])
    schedule.committer.in_flight(P, 1, [4])
    for now in (2.5, 5.0):
        with pytest.raises(InvariantViolation):
            schedule.run(now)
    assert schedule.sent == []


def test_the_same_offset_is_not_sent_again(schedule):
    schedule.committer.in_flight(P, 1, [0])
    schedule.run(2.5)
    schedule.run(5.0)
    assert schedule.sent == [{P: 0}]


def test_one_commit_is_under_way_at_a_time(schedule):
    schedule.committer.in_flight(P, 1, [0, 1])
    action = schedule.tickets.make(2.5)
    schedule.committer.done(P, 1, [0])
    assert schedule.tickets.has(action.ticket)
    assert not schedule.tickets.is_due(100.0)
    schedule.tickets.finished(action.ticket, {P: None}, 100.0)
    assert schedule.tickets.is_due(100.0)


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


def test_a_commit_is_due_at_the_very_moment_that_was_named_for_it():
    for milliseconds in range(4_000):
        due = CommitDue(Commit(interval=0.3), milliseconds / 1000)
        assert due.is_due(due.next_at())
