"""Commits: the request, the table of errors, retries, order, and the flag of a fenced identity."""

import random

import pytest

from seamark.client.core.commits.auto_commit import AutoCommit
from seamark.client.core.commits.commits import Commits
from seamark.client.core.commits.verdict import CommitContext, Remedy, verdict_on
from seamark.client.core.effects import FindCoordinator, ForgetCoordinator, LogLine, SendToCoordinator, Tickets
from seamark.client.core.membership.context import MemberState, Reset
from seamark.client.errors import (
    BrokerError,
    CommitFailed,
    CommitMetadataTooLarge,
    CommitTimedOut,
    ConnectionFailed,
    MemberFenced,
    RebalanceInProgress,
    RetriableCommitFailed,
)
from seamark.client.group_offsets import (
    NO_IDENTITY,
    GroupIdentity,
    fetched_offsets,
    offset_commit_request,
    offset_fetch_request,
)
from seamark.client.records import Offset
from seamark.errors import UsageError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from seamark.wire.schema.codec import encode
from tests.support.membership_driver import MemberDriver, tp

T0, T1 = tp("t-0"), tp("t-1")


def answer(codes):
    topics = {}
    for partition, code in codes.items():
        topics.setdefault(partition.topic, []).append((partition.partition, code))
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=name,
                partitions=[OffsetCommitResponsePartition(partition_index=i, error_code=c) for i, c in entries],
            )
            for name, entries in topics.items()
        ]
    )


class CommitDriver:
    """A settled member with commits on top; requests are answered by the test."""

    def __init__(self, *, is_settled=True, manual=False, **settings):
        self.member = MemberDriver(**settings)
        self.membership = self.member.membership
        self.commits = Commits(self.membership, tickets=Tickets(), metrics=self.member.metrics, rng=random.Random(3))
        self.sent = []
        self.effects = []
        if manual:
            self.membership.leave("manual", self.now)
            self.membership.coordinator_found(self.now)
        elif is_settled:
            self.member.settle("t-0 t-1")

    @property
    def now(self):
        return self.member.now_ms

    def pump(self):
        for effect in self.commits.take_effects():
            self.effects.append(effect)
            if isinstance(effect, SendToCoordinator):
                self.sent.append(effect)

    def start(self, offsets, timeout_ms=60_000):
        commit = self.commits.start(offsets, self.now, self.now + timeout_ms)
        self.pump()
        return commit

    def start_async(self, offsets):
        commit = self.commits.start_async(offsets, self.now)
        self.pump()
        return commit

    def answer(self, codes=None, code=ErrorCode.NONE):
        sent = self.sent.pop(0)
        if codes is None:
            codes = {tp(f"{t.name}-{p.partition_index}"): code for t in sent.request.topics for p in t.partitions}
        self.commits.answered(sent.ticket, answer(codes), self.now)
        self.pump()
        return sent.request

    def pass_time(self, milliseconds):
        end = self.member.now_ms + milliseconds
        while (at := self.commits.next_tick_ms) is not None and at <= end:
            self.member.now_ms = max(at, self.member.now_ms)
            self.commits.tick(self.now)
            self.pump()
        self.member.now_ms = end


# covers: A1, A2, A3, A4, A33
def test_a_commit_request_has_one_entry_per_topic_and_the_golden_bytes():
    offsets = {
        tp("demoTopic-0"): Offset(100, "associated metadata"),
        tp("demoTopic-1"): Offset(200, "more metadata"),
    }
    request = offset_commit_request("demoGroup", NO_IDENTITY, offsets)
    assert [(topic.name, len(topic.partitions)) for topic in request.topics] == [("demoTopic", 2)]
    assert encode(request, 7).hex() == (
        "000964656d6f47726f7570ffffffff0000ffff00000001000964656d6f546f70696300000002000000000000000000000064ffffffff"
        "00136173736f636961746564206d657461646174610000000100000000000000c8ffffffff000d6d6f7265206d65746164617461"
    )


# covers: A5, A6
def test_a_commit_carries_generation_member_and_instance():
    request = offset_commit_request("g", GroupIdentity(4, "m", "i"), {T0: Offset(1, leader_epoch=7)})
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (4, "m", "i")
    assert request.topics[0].partitions[0].committed_leader_epoch == 7


# covers: F26
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Offset(-1), "from 0 to 9223372036854775807, got -1"),
        (lambda: Offset(2**63), "from 0 to 9223372036854775807"),
        (lambda: Offset(1, "m" * 40_000), "at most 32767 bytes, got 40000"),
        (lambda: Offset(1, "ü" * 20_000), "at most 32767 bytes, got 40000"),
        (lambda: Offset(1, "a\ud800"), "cannot be encoded as UTF-8"),
        (lambda: Offset(1, 5), "must be a string, got 5"),
        (lambda: Offset(1, leader_epoch=2**40), "a leader epoch must be an integer"),
        (lambda: Offset(1, leader_epoch="3"), "a leader epoch must be an integer"),
    ],
)
def test_an_offset_that_no_request_can_carry_is_refused_before_it_is_sent(make, sentence):
    with pytest.raises(UsageError, match=sentence):
        make()


# covers: A18, A32, A35
@pytest.mark.parametrize("version", [1, 6, 7, 8, 9])
def test_an_offset_fetch_is_written_in_the_form_of_its_version(version):
    request = offset_fetch_request({"demoGroup": [tp("demoTopic-0")]}).make(version)
    encoded = encode(request, version).hex()
    if version == 1:
        assert encoded == "000964656d6f47726f757000000001000964656d6f546f7069630000000100000000"
    assert request.require_stable == (version >= 7)
    assert bool(request.groups) == (version >= 8)


# covers: F17, F25
def test_an_offset_of_minus_one_means_that_nothing_is_committed():
    partitions = [
        OffsetFetchResponsePartition(partition_index=0, committed_offset=-1, metadata="", error_code=0),
        OffsetFetchResponsePartition(
            partition_index=1, committed_offset=100, committed_leader_epoch=3, metadata="m", error_code=0
        ),
    ]
    topics = [OffsetFetchResponseTopic(name="t", partitions=partitions)]
    old = fetched_offsets("g", OffsetFetchResponse(topics=topics))
    new = fetched_offsets("g", OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)]))
    assert old == new
    assert old.offsets == {T0: None, T1: Offset(100, "m", 3)}


STABLE = CommitContext("g", True, MemberState.STABLE)
OVERTAKEN = CommitContext("g", False, MemberState.PREPARING_REBALANCE)
LATER = CommitContext("g", False, MemberState.STABLE)


# covers: F18, F20, F24
@pytest.mark.parametrize(
    ("code", "context", "error", "remedy", "reset"),
    [
        (ErrorCode.NONE, STABLE, type(None), Remedy.NONE, Reset.NOTHING),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, STABLE, BrokerError, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, STABLE, BrokerError, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, STABLE, CommitMetadataTooLarge, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.INVALID_COMMIT_OFFSET_SIZE, STABLE, BrokerError, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, STABLE, BrokerError, Remedy.RETRY, Reset.NOTHING),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, STABLE, BrokerError, Remedy.RETRY, Reset.NOTHING),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, STABLE, BrokerError, Remedy.REDISCOVER, Reset.NOTHING),
        (ErrorCode.NOT_COORDINATOR, STABLE, BrokerError, Remedy.REDISCOVER, Reset.NOTHING),
        (ErrorCode.REQUEST_TIMED_OUT, STABLE, BrokerError, Remedy.REDISCOVER, Reset.NOTHING),
        (ErrorCode.FENCED_INSTANCE_ID, STABLE, MemberFenced, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.FENCED_INSTANCE_ID, OVERTAKEN, RebalanceInProgress, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.FENCED_INSTANCE_ID, LATER, CommitFailed, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.REBALANCE_IN_PROGRESS, STABLE, RebalanceInProgress, Remedy.REJOIN, Reset.NOTHING),
        (ErrorCode.ILLEGAL_GENERATION, STABLE, CommitFailed, Remedy.RESET, Reset.KEEP_MEMBER_ID),
        (ErrorCode.UNKNOWN_MEMBER_ID, STABLE, CommitFailed, Remedy.RESET, Reset.EVERYTHING),
        (ErrorCode.ILLEGAL_GENERATION, OVERTAKEN, RebalanceInProgress, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.UNKNOWN_MEMBER_ID, OVERTAKEN, RebalanceInProgress, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, STABLE, BrokerError, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.UNSTABLE_OFFSET_COMMIT, STABLE, BrokerError, Remedy.NONE, Reset.NOTHING),
        (ErrorCode.UNKNOWN_SERVER_ERROR, STABLE, BrokerError, Remedy.NONE, Reset.NOTHING),
    ],
)
def test_the_table_of_commit_errors(code, context, error, remedy, reset):
    verdict = verdict_on([(T0, ErrorCode.NONE), (T1, code)], context)
    assert isinstance(verdict.error, error)
    assert (verdict.remedy, verdict.reset) == (remedy, reset)
    if isinstance(verdict.error, BrokerError):
        assert verdict.error.code is code


# covers: F24
def test_every_known_code_has_a_verdict():
    for code in ErrorCode:
        verdict = verdict_on([(T0, code)], STABLE)
        assert (verdict.error is None) == (code is ErrorCode.NONE)


# covers: F24
def test_the_first_failing_partition_decides_and_unauthorized_topics_are_collected():
    codes = [(tp("b-0"), ErrorCode.TOPIC_AUTHORIZATION_FAILED), (tp("a-0"), ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    assert "topics a, b" in str(verdict_on(codes, STABLE).error)
    codes.append((T0, ErrorCode.OFFSET_METADATA_TOO_LARGE))
    codes.append((T1, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    error = verdict_on(codes, STABLE).error
    assert isinstance(error, CommitMetadataTooLarge)
    assert error.partitions == (T0,)


# covers: C24, I12
def test_a_commit_of_a_stable_member_is_sent_under_its_generation():
    driver = CommitDriver()
    commit = driver.start({T0: Offset(5)})
    request = driver.answer()
    assert commit.is_done
    assert commit.error is None
    assert (request.generation_id_or_member_epoch, request.member_id) == (1, "me")
    assert driver.member.metrics.commits.count == 1


# covers: C24
def test_a_commit_during_a_join_is_not_sent_and_may_be_repeated():
    driver = CommitDriver()
    driver.membership.request_rejoin("test")
    driver.member.poll()
    commit = driver.start({T0: Offset(5)})
    assert isinstance(commit.error, RebalanceInProgress)
    assert driver.sent == []


# covers: C24, C32
def test_a_commit_of_a_member_that_left_for_inactivity_fails_without_being_sent():
    driver = CommitDriver(max_poll_interval_ms=10_000)
    driver.member.answers_heartbeats = True
    driver.member.advance(10_000)
    commit = driver.start({T0: Offset(5)})
    assert isinstance(commit.error, CommitFailed)
    assert "max.poll.interval.ms" in str(commit.error)
    assert driver.sent == []


# covers: C24, A5, I25
def test_a_manual_commit_is_anonymous_and_fails_in_a_group_that_has_members():
    driver = CommitDriver(manual=True, instance_id="i")
    commit = driver.start({T0: Offset(5)})
    request = driver.answer(code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (-1, "", None)
    assert isinstance(commit.error, CommitFailed)


# covers: F20, F22, I28
@pytest.mark.parametrize(
    ("code", "forgets"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.REQUEST_TIMED_OUT, True),
    ],
)
def test_a_blocking_commit_is_retried_after_a_backoff_at_the_right_coordinator(code, forgets):
    driver = CommitDriver()
    commit = driver.start({T0: Offset(5)})
    driver.answer(code=code)
    assert not commit.is_done
    assert any(isinstance(effect, ForgetCoordinator) for effect in driver.effects) == forgets
    driver.pass_time(150)
    if forgets:
        assert driver.sent == []
        assert any(isinstance(effect, FindCoordinator) for effect in driver.effects)
        driver.membership.coordinator_found(driver.now)
        driver.commits.coordinator_found(driver.now)
        driver.pump()
    driver.answer()
    assert commit.is_done
    assert commit.error is None


# covers: F21
def test_a_commit_over_a_broken_connection_rediscovers_and_retries():
    driver = CommitDriver()
    commit = driver.start({T0: Offset(5)})
    driver.commits.failed(driver.sent.pop().ticket, ConnectionFailed("b:1", "reset"), driver.now)
    driver.pump()
    driver.pass_time(150)
    driver.membership.coordinator_found(driver.now)
    driver.commits.coordinator_found(driver.now)
    driver.pump()
    driver.answer()
    assert commit.error is None


# covers: I28
def test_a_blocking_commit_ends_at_its_deadline_with_the_last_error():
    driver = CommitDriver()
    commit = driver.start({T0: Offset(5)}, timeout_ms=1000)
    driver.answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for _ in range(20):
        driver.pass_time(100)
        while driver.sent:
            driver.answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert isinstance(commit.error, CommitTimedOut)
    assert "within 1 s" in str(commit.error)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(commit.error)
    assert driver.commits.is_idle


# covers: I28
def test_a_blocking_commit_that_is_never_answered_ends_at_its_deadline_and_a_late_answer_is_dropped():
    driver = CommitDriver()
    commit = driver.start({T0: Offset(5)}, timeout_ms=1000)
    driver.pass_time(1000)
    assert isinstance(commit.error, CommitTimedOut)
    driver.answer()
    assert isinstance(commit.error, CommitTimedOut)


# covers: I10, I28
@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_an_asynchronous_commit_is_never_retried(code):
    driver = CommitDriver()
    driver.start_async({T0: Offset(5)})
    driver.answer(code=code)
    [commit] = driver.commits.finished()
    assert isinstance(commit.error, RetriableCommitFailed)
    assert commit.error.__cause__.code is code
    driver.pass_time(60_000)
    assert driver.sent == []


# covers: B23, B24, I15
def test_commits_behind_a_lookup_keep_their_order_and_so_do_their_callbacks():
    driver = CommitDriver()
    driver.membership.coordinator_lost(driver.now)
    for offset in range(3):
        driver.start_async({T0: Offset(offset)})
    assert driver.sent == []
    driver.membership.coordinator_found(driver.now)
    driver.commits.coordinator_found(driver.now)
    driver.pump()
    sent = list(driver.sent)
    assert [each.request.topics[0].partitions[0].committed_offset for each in sent] == [0, 1, 2]
    for each in reversed(sent):
        assert driver.commits.finished() == []
        driver.commits.answered(each.ticket, answer({T0: ErrorCode.NONE}), driver.now)
    assert [commit.offsets[T0].offset for commit in driver.commits.finished()] == [0, 1, 2]
    assert driver.commits.finished() == []


# covers: B23
def test_a_lookup_that_is_refused_fails_the_commits_that_wait_for_it():
    driver = CommitDriver()
    driver.membership.coordinator_lost(driver.now)
    waiting = driver.start({T0: Offset(1)})
    driver.start_async({T0: Offset(2)})
    refusal = verdict_on([(T0, ErrorCode.GROUP_AUTHORIZATION_FAILED)], STABLE).error
    driver.commits.coordinator_refused(refusal, driver.now)
    assert waiting.error is refusal
    assert [commit.error for commit in driver.commits.finished()] == [refusal]


# covers: F30
def test_a_fenced_asynchronous_commit_is_thrown_by_what_comes_next_and_no_callback_runs():
    driver = CommitDriver(instance_id="i")
    driver.start_async({T0: Offset(1)})
    driver.start_async({T0: Offset(2)})
    driver.answer()
    driver.answer(code=ErrorCode.FENCED_INSTANCE_ID)
    assert driver.commits.has_finished
    with pytest.raises(MemberFenced):
        driver.commits.raise_if_fenced()
    assert driver.commits.finished() == []


# covers: F24
def test_a_fenced_blocking_commit_raises_by_itself():
    driver = CommitDriver(instance_id="i")
    commit = driver.start({T0: Offset(1)})
    driver.answer(code=ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(commit.error, MemberFenced)
    driver.commits.raise_if_fenced()


# covers: F24, C31
@pytest.mark.parametrize(("code", "kept"), [(ErrorCode.ILLEGAL_GENERATION, "me"), (ErrorCode.UNKNOWN_MEMBER_ID, "")])
def test_a_commit_of_an_old_generation_resets_the_member(code, kept):
    driver = CommitDriver()
    commit = driver.start({T0: Offset(1)})
    driver.answer(code=code)
    assert isinstance(commit.error, CommitFailed)
    assert driver.membership.generation == (-1, kept, None)
    driver.member.poll()
    assert driver.member.story[-3:] == ["lost{t-0,t-1}", "own{}", "join"]


# covers: F24, F27
def test_a_commit_while_the_group_rebalances_asks_for_a_rejoin_and_keeps_the_generation():
    driver = CommitDriver()
    driver.start({T0: Offset(1)})
    driver.answer(code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.membership.is_rejoin_needed
    assert driver.membership.generation.generation_id == 1


# covers: F18, F19, A10, A20
def test_one_partition_that_fails_is_named_and_the_others_count():
    driver = CommitDriver()
    commit = driver.start({T0: Offset(1), T1: Offset(2, "x" * 4097)})
    driver.answer({T0: ErrorCode.NONE, T1: ErrorCode.OFFSET_METADATA_TOO_LARGE})
    assert isinstance(commit.error, CommitMetadataTooLarge)
    assert commit.error.partitions == (T1,)


def test_committing_nothing_is_done_at_once():
    driver = CommitDriver()
    assert driver.start({}).is_done
    assert driver.sent == []


# covers: C30, I27
def test_the_commit_before_a_join_retries_with_the_positions_of_the_moment():
    driver = CommitDriver()
    done = []
    offsets = {T0: Offset(1)}
    driver.commits.start_unreported(
        offsets,
        driver.now,
        lambda commit, now: done.append((now, commit.error)),
        deadline_ms=driver.now + 1000,
        renew=lambda: offsets,
    )
    driver.pump()
    driver.answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    offsets[T0] = Offset(9)
    driver.pass_time(150)
    assert driver.answer().topics[0].partitions[0].committed_offset == 9
    assert [error for _, error in done] == [None]


# covers: I5, I14
def test_auto_commit_is_due_at_the_first_poll_after_the_interval():
    auto = AutoCommit(is_enabled=True, interval_ms=5000, retry_ms=100, now_ms=1000)
    assert not auto.is_due(5999)
    assert auto.is_due(6000)
    auto.restart(6000)
    assert not auto.is_due(10_999)
    auto.failed(6500)
    assert auto.is_due(6600)


# covers: I7, I13
def test_auto_commit_that_is_off_is_never_due():
    auto = AutoCommit(is_enabled=False, interval_ms=5000, retry_ms=100, now_ms=0)
    auto.failed(1)
    auto.restart(1)
    assert not auto.is_due(1 << 50)


def test_commits_of_a_member_that_is_joining_are_one_line_of_the_log_and_their_number_when_it_is_over():
    driver = CommitDriver()
    driver.member.carry_out(driver.membership.request_rejoin("test"))
    driver.member.poll()
    for _ in range(50):
        driver.start({T0: Offset(1)})
        driver.start_async({T0: Offset(1)})
    driver.member.answer_join(generation=2)
    driver.member.answer_sync("t-0 t-1")
    driver.member.poll()
    driver.start({T0: Offset(1)})
    driver.answer()
    lines = [effect.text for effect in driver.effects if isinstance(effect, LogLine)]
    assert lines == [
        "a commit of t-0 failed: the member is joining the group; poll, then commit again",
        "commits succeed again, after 100 failures",
    ]
