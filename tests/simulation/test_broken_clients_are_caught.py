"""Each promise of a client is kept by a check that can fail: a client broken on purpose does not live through some
lifetimes.
"""

import pytest

from seamark.client.consumer.calls import ConsumerCalls
from seamark.client.consumer.iteration import RecordIteration
from seamark.client.core.assignment_state import AssignmentState
from seamark.client.core.commits import commits
from seamark.client.core.commits.commits import Commits
from seamark.client.core.commits.verdict import Verdict
from seamark.client.core.consumer_core import ConsumerCore
from seamark.client.core.membership import handover as rebalance_completion
from seamark.client.core.membership import handover as rebalance_preparation
from seamark.client.core.membership.context import MemberContext
from seamark.client.core.membership.handover import Difference, Handover
from seamark.client.core.membership.heartbeats import Heartbeats, HeartbeatTiming, PollInterval
from seamark.client.core.membership.membership import Membership
from seamark.client.core.positions import messages as positions_answers
from seamark.client.core.positions.positions import Positions
from seamark.client.core.positions.reset import LATEST, ResetPolicy
from seamark.client.group_offsets import NO_IDENTITY, GroupIdentity
from seamark.client.records import Offset
from seamark.simulation import LifetimeFailed, run_lifetime


def rejoin_without_revoking(monkeypatch):
    monkeypatch.setattr(
        rebalance_preparation, "before_join", lambda protocol, owned, topics, generation: Handover(None, (), owned)
    )


def keep_what_was_lost(monkeypatch):
    original = rebalance_preparation.before_join

    def before_join(protocol, owned, topics, generation):
        if generation.is_reset:
            return Handover(None, (), owned)
        return original(protocol, owned, topics, generation)

    monkeypatch.setattr(rebalance_preparation, "before_join", before_join)


def give_up_in_silence(monkeypatch):
    original = rebalance_completion.after_sync
    monkeypatch.setattr(
        rebalance_completion, "after_sync", lambda owned, assigned: Difference((), original(owned, assigned).added)
    )


def commit_under_the_first_generation(monkeypatch):
    original = Membership.commit_identity

    def commit_identity(self):
        identity = original(self)
        if isinstance(identity, GroupIdentity) and identity is not NO_IDENTITY:
            self.__dict__.setdefault("first", identity)
            return self.__dict__["first"]
        return identity

    monkeypatch.setattr(Membership, "commit_identity", commit_identity)


def commit_without_identity(monkeypatch):
    monkeypatch.setattr(Membership, "commit_identity", lambda self: NO_IDENTITY)


def resume_where_it_once_was(monkeypatch):
    own, seek = AssignmentState.own, Positions.seek

    def remember(self, partitions, *, is_held):
        left = self.__dict__.setdefault("left", {})
        left.update({state.partition: state.position for state in self if state.position is not None})
        return own(self, partitions, is_held=is_held)

    def resume(self, state, position):
        seek(self, state, self._assignment.__dict__.get("left", {}).get(state.partition, position))

    monkeypatch.setattr(AssignmentState, "own", remember)
    monkeypatch.setattr(Positions, "seek", resume)


def commit_everything_polled(monkeypatch):
    monkeypatch.setattr(ConsumerCalls, "_offsets", lambda self, offsets: self.core.consumed_offsets())


def commit_one_too_many(monkeypatch):
    original = ConsumerCore.consumed_offsets
    monkeypatch.setattr(
        ConsumerCore,
        "consumed_offsets",
        lambda self: {partition: Offset(each.offset + 1) for partition, each in original(self).items()},
    )


def commit_all_that_is_shown(monkeypatch):
    def count_all(self, *, is_back):
        count = len(self._records) - self._taken
        self._taken += count
        if count:
            self._consumed(self._fetcher.take_shown(count))

    monkeypatch.setattr(RecordIteration, "take_handed_out", count_all)


def stop_beating(monkeypatch):
    monkeypatch.setattr(HeartbeatTiming, "is_due", lambda self, now_ms: False)
    monkeypatch.setattr(HeartbeatTiming, "next_ms", property(lambda self: self._session_until_ms))


def stay_whatever_the_caller_does(monkeypatch):
    monkeypatch.setattr(PollInterval, "is_exceeded", lambda self, now_ms: False)
    monkeypatch.setattr(Heartbeats, "next_ms", property(next_beat))


def next_beat(heartbeats):
    context = heartbeats._context
    if not context.is_heartbeat_enabled or not context.is_coordinator_known:
        return None
    return heartbeats._timing.next_ms


def trust_the_old_coordinator(monkeypatch):
    monkeypatch.setattr(MemberContext, "forget_coordinator", lambda self, reason: None)


def start_at_the_end(monkeypatch):
    monkeypatch.setattr(ResetPolicy, "timestamp", lambda self, wall_ms: LATEST)


def start_behind_the_committed_offset(monkeypatch):
    original = positions_answers.Position
    monkeypatch.setattr(positions_answers, "Position", lambda offset, epoch: original(offset + (offset > 0), epoch))


def report_commits_backwards(monkeypatch):
    original = Commits.start_async

    def start_async(self, offsets, now_ms, **told):
        commit = original(self, offsets, now_ms, **told)
        self._unreported.rotate(1)
        return commit

    monkeypatch.setattr(Commits, "start_async", start_async)


def retry_what_must_not_be_retried(monkeypatch):
    original = Commits.start_async

    def start_async(self, offsets, now_ms, **told):
        commit = original(self, offsets, now_ms, **told)
        commit.deadline_ms = now_ms + 20_000
        return commit

    monkeypatch.setattr(Commits, "start_async", start_async)


def go_on_fetching_what_is_gone(monkeypatch):
    monkeypatch.setattr(
        ConsumerCore, "_own", lambda self, partitions: self.assignment.own(partitions, is_held=True) and None
    )


def take_a_rebalance_for_success(monkeypatch):
    original = commits.verdict_on

    def verdict_on(codes, context):
        verdict = original(codes, context)
        return Verdict(None) if verdict.reset is not verdict.reset.NOTHING else verdict

    monkeypatch.setattr(commits, "verdict_on", verdict_on)


# covers: C13, C16, C24, C30, C31, F20, F21, F22, F24, I2, I3, I15
@pytest.mark.parametrize(
    ("scenario", "break_it"),
    [
        ("clients", rejoin_without_revoking),
        ("clients-cooperative", keep_what_was_lost),
        ("clients-cooperative", give_up_in_silence),
        ("clients", commit_under_the_first_generation),
        ("clients", commit_without_identity),
        ("clients", resume_where_it_once_was),
        ("clients-at-least-once", commit_everything_polled),
        ("clients-at-least-once", commit_one_too_many),
        ("clients-at-least-once", commit_all_that_is_shown),
        ("clients", stop_beating),
        ("clients-stalls", stay_whatever_the_caller_does),
        ("clients-moving-coordinators", trust_the_old_coordinator),
        ("clients-at-least-once", start_at_the_end),
        ("clients", start_behind_the_committed_offset),
        ("clients-at-least-once", report_commits_backwards),
        ("clients-bad-network", retry_what_must_not_be_retried),
        ("clients", go_on_fetching_what_is_gone),
        ("clients-at-most-once", take_a_rebalance_for_success),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
# A lifetime that failed leaves calls in the middle.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broken_client_is_caught(monkeypatch, scenario, break_it):
    def run_some():
        for seed in range(300):
            run_lifetime(seed, scenario)

    break_it(monkeypatch)
    with pytest.raises(LifetimeFailed) as caught:
        run_some()
    assert caught.value.transcript
    assert caught.value.step > 0
