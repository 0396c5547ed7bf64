"""Heartbeats, their answers, and the member that leaves by itself."""

import pytest

from seamark.client.core.membership.context import MemberState, Reset
from seamark.client.errors import ConnectionFailed, MemberFenced
from seamark.client.group_offsets import NO_IDENTITY
from seamark.errors import ConfigError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest
from seamark.wire.protocol.messages.join_group import JoinGroupRequest
from seamark.wire.protocol.messages.leave_group import LeaveGroupRequest
from tests.support.membership_driver import MemberDriver

TUNED = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 2000}


# covers: C25
def test_three_heartbeats_fit_into_a_session_of_the_tuning_pair():
    driver = MemberDriver(**TUNED)
    driver.settle()
    for _ in range(3):
        driver.beat(ErrorCode.NONE)
    assert driver.metrics.heartbeats_sent == 3


# covers: C25
def test_a_heartbeat_interval_that_is_not_below_the_session_is_refused():
    with pytest.raises(ConfigError, match=r"heartbeat\.interval\.ms"):
        MemberDriver(session_timeout_ms=3000, heartbeat_interval_ms=3000)


def test_one_heartbeat_is_outstanding_at_a_time():
    driver = MemberDriver(**TUNED)
    driver.settle()
    driver.advance(5000)
    assert len(driver.sent(HeartbeatRequest)) == 1


# covers: C31, A28
def test_a_rebalance_announced_by_a_heartbeat_is_joined_with_the_next_poll():
    driver = MemberDriver(**TUNED)
    driver.settle()
    driver.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.membership.is_rejoin_needed
    assert driver.membership.state is MemberState.STABLE, "commits still carry the generation"
    assert driver.membership.commit_identity().generation_id == 1
    driver.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.poll()
    [request] = driver.sent(JoinGroupRequest)
    assert request.member_id == "me"


# covers: C31
def test_a_rebalance_announced_while_completing_one_is_ignored():
    driver = MemberDriver(**TUNED)
    driver.poll()
    driver.answer_join()
    driver.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.answer_sync("t-0")
    driver.poll()
    assert driver.membership.is_settled
    assert driver.membership.owned


# covers: C31
@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_up_again_and_the_member_stays(code):
    driver = MemberDriver(**TUNED)
    driver.settle()
    driver.beat(code)
    assert driver.story[-1] == "forget"
    driver.advance(150)
    assert len(driver.sent(HeartbeatRequest)) == 1, "the retry backoff has passed"
    assert driver.membership.state is MemberState.STABLE


# covers: C31
@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.ILLEGAL_GENERATION, "me"), (ErrorCode.UNKNOWN_MEMBER_ID, "")]
)
def test_a_heartbeat_that_is_not_known_resets_and_the_next_poll_has_lost_everything(code, member_id):
    driver = MemberDriver(**TUNED)
    driver.settle("t-0")
    driver.beat(code)
    assert driver.membership.generation.generation_id == -1
    assert driver.membership.generation.member_id == member_id
    assert driver.membership.state is MemberState.UNJOINED
    assert not driver.membership.is_heartbeat_enabled
    driver.story.clear()
    driver.poll()
    assert driver.story == ["lost{t-0}", "own{}", "join"]
    assert driver.sent(JoinGroupRequest)[0].member_id == member_id


# covers: C31
def test_a_fenced_member_hears_of_it_once_and_takes_its_identity_back_when_it_polls_again():
    driver = MemberDriver(instance_id="i", **TUNED)
    driver.settle("t-0")
    driver.beat(ErrorCode.FENCED_INSTANCE_ID)
    with pytest.raises(MemberFenced, match="instance 'i'"):
        driver.poll()
    driver.poll()
    assert driver.story[-3:] == ["lost{t-0}", "own{}", "join"]
    [request] = driver.sent(JoinGroupRequest)
    assert (request.member_id, request.group_instance_id) == ("", "i")


# covers: C31
@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]
)
def test_an_answer_about_an_earlier_generation_is_ignored(code):
    driver = MemberDriver(**TUNED)
    driver.poll()
    driver.answer_join(generation=1)
    driver.advance(2000)
    old = driver.take(HeartbeatRequest)
    driver.answer_sync(code=ErrorCode.REBALANCE_IN_PROGRESS)
    driver.settle("t-0", generation=2)
    driver.outbox.append(old)
    driver.answer_heartbeat(code)
    driver.poll()
    assert driver.membership.state is MemberState.STABLE
    assert driver.membership.generation.generation_id == 2


# covers: C31
def test_an_answer_to_a_request_from_before_a_reset_does_not_reset_again():
    driver = MemberDriver(**TUNED)
    driver.settle("t-0")
    driver.advance(2000)
    driver.carry_out(driver.membership.reset(Reset.KEEP_MEMBER_ID, "a commit was rejected"))
    driver.answer_heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert driver.membership.generation.member_id == "me"
    assert driver.metrics.stale_answers == 1


# covers: C31
def test_a_session_without_answers_gives_the_coordinator_up():
    driver = MemberDriver(**TUNED)
    driver.settle()
    driver.knows_coordinator = False
    driver.advance(6000)
    assert driver.story[-1] == "forget"
    assert driver.membership.next_tick_ms is None
    driver.carry_out(driver.membership.coordinator_found(driver.now_ms))
    driver.advance(100)
    assert len(driver.sent(HeartbeatRequest)) == 2


def test_a_heartbeat_over_a_broken_connection_is_sent_again_after_the_backoff():
    driver = MemberDriver(**TUNED)
    driver.settle()
    driver.advance(2000)
    driver.fail(HeartbeatRequest, ConnectionFailed("broker:9092", "reset"))
    driver.advance(99)
    assert driver.sent(HeartbeatRequest) == []
    driver.advance(1)
    assert len(driver.sent(HeartbeatRequest)) == 1


# covers: C26, C32
def test_a_member_whose_caller_stays_away_leaves_by_itself_and_has_lost_its_partitions():
    driver = MemberDriver(max_poll_interval_ms=5000, **TUNED)
    driver.settle("t-0")
    driver.beat(ErrorCode.NONE)
    driver.beat(ErrorCode.NONE)
    driver.advance(1000)
    request = driver.answer_leave()
    assert request.members[0].member_id == "me"
    assert request.members[0].reason == "consumer poll timeout has expired"
    assert not driver.membership.is_heartbeat_enabled
    driver.advance(60_000)
    assert driver.sent(HeartbeatRequest) == []
    assert driver.membership.commit_identity() is None
    assert not driver.membership.state.is_joining, "a commit fails as CommitFailed"
    driver.story.clear()
    driver.poll()
    assert driver.story == ["lost{t-0}", "own{}", "join"]
    assert driver.sent(JoinGroupRequest)[0].member_id == ""
    assert any("max.poll.interval.ms" in line.text for line in driver.log)


# covers: C26
def test_a_caller_just_below_the_poll_interval_keeps_its_membership():
    driver = MemberDriver(max_poll_interval_ms=5000, **TUNED)
    driver.settle("t-0")
    driver.answers_heartbeats = True
    for _ in range(10):
        driver.advance(4999)
        driver.poll()
    assert driver.metrics.heartbeats_sent > 20
    assert driver.membership.state is MemberState.STABLE


# covers: C32
def test_a_static_member_whose_caller_stays_away_stops_beating_without_leaving():
    driver = MemberDriver(max_poll_interval_ms=5000, instance_id="i", **TUNED)
    driver.settle("t-0")
    driver.beat(ErrorCode.NONE)
    driver.beat(ErrorCode.NONE)
    driver.advance(10_000)
    assert "leave" not in driver.story
    assert driver.sent(HeartbeatRequest) == []
    driver.poll()
    assert driver.story[-3:] == ["lost{t-0}", "own{}", "join"]


# covers: I29
def test_leaving_revokes_first_and_then_tells_the_coordinator():
    driver = MemberDriver()
    driver.settle("t-0")
    driver.story.clear()
    driver.carry_out(driver.membership.prepare_leave(driver.now_ms))
    driver.carry_out(driver.membership.leave("the consumer is being closed", driver.now_ms))
    assert driver.story == ["revoked{t-0}", "own{}", "leave"]
    assert driver.membership.is_leaving
    driver.answer_leave()
    assert not driver.membership.is_leaving
    assert driver.membership.commit_identity() == NO_IDENTITY


# covers: I29
@pytest.mark.parametrize("is_answered", [False, True])
def test_leaving_during_a_join_has_lost_what_a_cooperative_member_kept(is_answered):
    driver = MemberDriver(strategy="cooperative-sticky")
    driver.settle("t-0")
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    if is_answered:
        driver.answer_join(generation=2)
    driver.story.clear()
    driver.carry_out(driver.membership.prepare_leave(driver.now_ms))
    driver.carry_out(driver.membership.leave("closed", driver.now_ms))
    assert driver.story == ["lost{t-0}", "own{}", "leave"]


@pytest.mark.parametrize("rebalance", ["none", "JoinGroup is held back", "SyncGroup is held back"])
def test_leave_group_overtakes_a_join_that_the_coordinator_holds_back_and_nothing_else(rebalance):
    driver = MemberDriver()
    driver.settle("t-0")
    if rebalance != "none":
        driver.carry_out(driver.membership.request_rejoin("test"))
        driver.poll()
    if rebalance == "SyncGroup is held back":
        driver.answer_join(generation=2)
    driver.carry_out(driver.membership.leave("closed", driver.now_ms))
    assert driver.take(LeaveGroupRequest).overtakes == (rebalance != "none")


def test_a_static_member_that_is_to_leave_can_do_so_before_its_first_join_is_answered():
    driver = MemberDriver(instance_id="i")
    driver.poll()
    driver.carry_out(driver.membership.leave("closed", driver.now_ms, even_if_static=True))
    [leaving] = driver.sent(LeaveGroupRequest)[0].members
    assert (leaving.member_id, leaving.group_instance_id) == ("", "i")


# covers: C32
@pytest.mark.parametrize(
    ("instance_id", "options", "leaves"),
    [(None, {}, True), ("i", {}, False), ("i", {"even_if_static": True}, True), (None, {"remain": True}, False)],
)
def test_who_sends_leave_group_on_close(instance_id, options, leaves):
    driver = MemberDriver(instance_id=instance_id)
    driver.settle("t-0")
    driver.carry_out(driver.membership.leave("closed", driver.now_ms, **options))
    assert (len(driver.sent(LeaveGroupRequest)) == 1) == leaves
    assert not driver.membership.is_heartbeat_enabled


def test_a_member_that_never_joined_has_nothing_to_leave():
    driver = MemberDriver()
    driver.carry_out(driver.membership.prepare_leave(driver.now_ms))
    driver.carry_out(driver.membership.leave("closed", driver.now_ms))
    assert driver.story == []


def test_an_answer_that_comes_after_leaving_changes_nothing():
    driver = MemberDriver()
    driver.poll()
    join = driver.take(JoinGroupRequest)
    driver.carry_out(driver.membership.leave("closed", driver.now_ms))
    driver.outbox.append(join)
    driver.answer_join()
    assert driver.membership.state is MemberState.UNJOINED
    assert driver.story == ["join"]


# covers: C24, A6
def test_commits_carry_the_generation_only_while_stable():
    driver = MemberDriver(instance_id="i")
    assert driver.membership.commit_identity() is None
    driver.poll()
    assert driver.membership.commit_identity() is None
    assert driver.membership.state.is_joining
    driver.answer_join(generation=3)
    assert driver.membership.commit_identity() is None
    driver.answer_sync("t-0")
    assert driver.membership.commit_identity() == (3, "me", "i")


# covers: C24, A5
def test_manual_assignment_commits_without_generation_member_and_instance():
    driver = MemberDriver(instance_id="i")
    driver.carry_out(driver.membership.leave("unsubscribed", driver.now_ms))
    assert driver.membership.commit_identity() == (-1, "", None)
