"""What poll does for a group member before and around a join: last poll time, coordinator, pattern, flags."""

import pytest

from seamark.client.core.membership.context import MemberState
from seamark.client.errors import ConnectionFailed
from seamark.errors import UsageError
from seamark.wire.protocol.consumer_protocol import decode_subscription
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest
from seamark.wire.protocol.messages.join_group import JoinGroupRequest
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest
from tests.support.membership_driver import MemberDriver


# covers: C2, E14
def test_polling_without_an_assignor_names_the_empty_option():
    driver = MemberDriver(strategy=None)
    with pytest.raises(UsageError, match=r"partition\.assignment\.strategy is empty"):
        driver.poll()


# covers: C3, C4
def test_the_time_of_a_poll_is_noted_though_no_coordinator_can_be_found():
    driver = MemberDriver()
    driver.knows_coordinator = False
    driver.now_ms = 7777
    driver.poll()
    assert driver.membership.poll_interval.last_poll_ms == 7777
    assert driver.outbox == []
    assert driver.membership.state is MemberState.UNJOINED


# covers: C3, C32
def test_a_member_whose_coordinator_is_away_does_not_leave_for_inactivity_while_it_polls():
    driver = MemberDriver(max_poll_interval_ms=10_000, session_timeout_ms=6000, heartbeat_interval_ms=2000)
    driver.settle()
    driver.knows_coordinator = False
    driver.carry_out(driver.membership.coordinator_lost(driver.now_ms))
    for _ in range(5):
        driver.advance(5000)
        driver.poll()
    driver.knows_coordinator = True
    driver.poll()
    driver.advance(1)
    assert "leave" not in driver.story
    assert driver.membership.state is MemberState.STABLE


# covers: C5
def test_a_member_that_needs_no_rejoin_sends_nothing():
    driver = MemberDriver()
    driver.settle()
    driver.poll()
    assert driver.outbox == []
    assert driver.membership.is_settled


# covers: C11
def test_the_coordinator_is_ensured_even_when_already_joined():
    driver = MemberDriver()
    driver.settle()
    driver.carry_out(driver.membership.coordinator_lost(driver.now_ms))
    driver.poll()
    driver.beat(ErrorCode.NONE)
    assert driver.membership.state is MemberState.STABLE


# covers: C6
def test_a_pattern_waits_for_fresh_metadata_before_the_join():
    driver = MemberDriver(has_pattern=True)
    driver.answers_metadata = False
    driver.poll()
    assert driver.metadata_requests == [None]
    assert driver.sent(JoinGroupRequest) == []
    driver.poll()
    assert driver.metadata_requests == [None], "one refresh is awaited at a time"
    driver.give_metadata()
    driver.carry_out(driver.membership.subscribe(["t", "u"], has_pattern=True))
    driver.answers_metadata = True
    driver.poll()
    [request] = driver.sent(JoinGroupRequest)
    assert decode_subscription(request.protocols[0].metadata).topics == ["t", "u"]


# covers: C6
def test_a_pattern_whose_refresh_failed_asks_again_and_does_not_join_on_old_knowledge():
    driver = MemberDriver(has_pattern=True)
    driver.answers_metadata = False
    driver.poll()
    driver.membership.metadata_failed()
    driver.poll()
    assert driver.metadata_requests == [None, None]
    assert driver.sent(JoinGroupRequest) == []


# covers: C6
def test_a_pattern_asks_again_only_after_the_refresh_backoff():
    driver = MemberDriver(has_pattern=True)
    driver.settle()
    driver.give_metadata()
    asked = len(driver.metadata_requests)
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    assert len(driver.metadata_requests) == asked, "the last refresh is younger than the backoff"
    driver.answer_join(generation=2)
    driver.answer_sync("t-0")
    driver.poll()
    driver.advance(100)
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    assert len(driver.metadata_requests) == asked + 1


# covers: C7, C15
def test_a_join_that_is_not_done_stays_pending_for_the_next_poll():
    driver = MemberDriver()
    driver.poll()
    driver.poll()
    assert driver.story == ["join"]
    driver.answer_join()
    driver.poll()
    assert driver.story == ["join", "sync"]
    driver.answer_sync("t-0")
    assert driver.membership.owned == (), "the listener hears of an assignment only inside poll"
    driver.poll()
    assert driver.story == ["join", "sync", "own{t-0}", "assigned{t-0}", "release{t-0}"]


# covers: C12
def test_each_turn_of_the_loop_checks_the_coordinator_again():
    driver = MemberDriver()
    driver.poll()
    driver.knows_coordinator = False
    driver.answer_join(ErrorCode.NOT_COORDINATOR)
    driver.advance(1000)
    driver.poll()
    assert driver.story == ["join", "forget"]
    driver.knows_coordinator = True
    driver.poll()
    assert driver.story == ["join", "forget", "join"]


# covers: C13
def test_the_flag_is_cleared_before_the_listener_so_that_one_that_raises_is_not_called_again():
    driver = MemberDriver()
    driver.settle()
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.listener_raises["revoked"] = [ValueError("no")]
    with pytest.raises(ValueError, match="no"):
        driver.poll()
    assert not driver.membership.needs_join_prepare
    assert driver.membership.owned == ()
    driver.poll()
    assert driver.story.count("revoked{t-0,t-1}") == 1
    assert driver.story[-1] == "join"


# covers: C13, C14, I27
def test_no_join_is_started_while_the_commit_before_it_is_awaited():
    driver = MemberDriver(auto_commit=True)
    driver.settle()
    driver.story.clear()
    driver.finishes_commits = False
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    driver.poll()
    assert driver.story == ["hold{t-0,t-1}", "commit"]
    assert driver.membership.needs_join_prepare
    driver.carry_out(driver.membership.commit_before_join_finished(driver.now_ms))
    driver.poll()
    assert driver.story == ["hold{t-0,t-1}", "commit", "revoked{t-0,t-1}", "own{}", "join"]
    assert not driver.membership.needs_join_prepare


# covers: C30
def test_the_commit_before_the_join_is_given_up_after_the_poll_interval():
    driver = MemberDriver(auto_commit=True, max_poll_interval_ms=20_000, session_timeout_ms=60_000)
    driver.settle()
    driver.finishes_commits = False
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    assert driver.membership.poll_again_ms(driver.now_ms) == driver.now_ms + 20_000
    for _ in range(2):
        driver.now_ms += 9_999
        driver.poll()
        assert driver.story[-1] == "commit"
    driver.now_ms += 2
    driver.poll()
    assert driver.story[-3:] == ["revoked{t-0,t-1}", "own{}", "join"]
    assert any(line.event == "commit_before_join" for line in driver.log)


# covers: C13
def test_a_second_trigger_during_the_loop_prepares_again():
    driver = MemberDriver()
    driver.settle()
    driver.carry_out(driver.membership.request_rejoin("first"))
    driver.poll()
    driver.answer_join(generation=2)
    driver.answer_sync("t-0")
    driver.carry_out(driver.membership.request_rejoin("second"))
    driver.story.clear()
    driver.poll()
    assert driver.story == ["own{t-0}", "assigned{t-0}", "release{t-0}", "revoked{t-0}", "own{}", "join"]


# covers: C16
def test_an_interrupted_completion_is_taken_up_by_the_next_poll():
    driver = MemberDriver()
    driver.poll()
    driver.answer_join()
    driver.answer_sync("t-0")
    driver.listener_raises["assigned"] = [KeyError("boom")]
    with pytest.raises(KeyError):
        driver.poll()
    assert "release{t-0}" not in driver.story
    driver.poll()
    assert driver.story[-2:] == ["assigned{t-0}", "release{t-0}"]
    assert driver.story.count("assigned{t-0}") == 2
    assert driver.story.count("own{t-0}") == 1


# covers: C16
def test_a_generation_that_was_reset_before_the_completion_starts_over():
    driver = MemberDriver()
    driver.poll()
    driver.answer_join()
    driver.advance(3000)
    driver.answer_sync("t-0")
    driver.answer_heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    driver.poll()
    assert "assigned{t-0}" not in driver.story
    [request] = driver.sent(JoinGroupRequest)
    assert request.member_id == ""
    assert "generation -1" in request.reason
    assert "unjoined" in request.reason
    assert driver.membership.state is MemberState.PREPARING_REBALANCE


# covers: C16, C18
def test_heartbeats_go_on_while_the_listener_runs():
    driver = MemberDriver(strategy="range")
    driver.poll()
    driver.answer_join()
    driver.answer_sync("t-0")
    driver.holds_listener = True
    driver.poll()
    assert driver.held_call is not None
    driver.beat(ErrorCode.NONE)
    driver.poll()
    assert driver.story.count("assigned{t-0}") == 1, "a poll from inside the listener starts nothing"
    driver.return_from_listener()
    assert driver.story[-1] == "release{t-0}"


# covers: C19
def test_success_means_stable_with_heartbeats():
    driver = MemberDriver()
    driver.settle()
    assert driver.membership.state is MemberState.STABLE
    assert driver.membership.is_heartbeat_enabled


# covers: C20
def test_out_of_time_after_an_error_leaves_the_member_unjoined_without_heartbeats():
    driver = MemberDriver()
    driver.poll()
    driver.answer_join(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    driver.poll()
    assert driver.membership.state is MemberState.UNJOINED
    assert not driver.membership.is_heartbeat_enabled
    driver.advance(4000)
    assert driver.sent(HeartbeatRequest) == []


# covers: C20
def test_out_of_time_without_a_join_answer_leaves_it_preparing_without_heartbeats():
    driver = MemberDriver()
    driver.settle()
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    assert driver.membership.state is MemberState.PREPARING_REBALANCE
    assert not driver.membership.is_heartbeat_enabled
    driver.advance(4000)
    assert driver.sent(HeartbeatRequest) == []


# covers: C20
def test_out_of_time_without_a_sync_answer_leaves_it_completing_with_heartbeats():
    driver = MemberDriver()
    driver.poll()
    driver.answer_join()
    driver.poll()
    assert driver.membership.state is MemberState.COMPLETING_REBALANCE
    assert driver.membership.is_heartbeat_enabled
    driver.advance(3000)
    assert driver.answer_heartbeat().generation_id == 1


# covers: C21
def test_a_member_has_exactly_four_states():
    assert [state.name for state in MemberState] == [
        "UNJOINED",
        "PREPARING_REBALANCE",
        "COMPLETING_REBALANCE",
        "STABLE",
    ]


# covers: C17
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
    ],
)
def test_these_errors_join_again_at_once(code):
    driver = MemberDriver()
    driver.poll()
    driver.answer_join(code, member_id="given")
    driver.poll()
    [request] = driver.sent(JoinGroupRequest)
    assert request.member_id == ("given" if code is ErrorCode.MEMBER_ID_REQUIRED else "")
    assert request.reason == f"rebalance failed due to {code.name}"


# covers: C17
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_these_errors_are_raised_and_the_member_can_try_again(code):
    driver = MemberDriver()
    driver.poll()
    driver.answer_join(code)
    with pytest.raises(Exception, match=code.name) as raised:
        driver.poll()
    assert raised.value.code is code
    assert "group 'g'" in str(raised.value)
    driver.poll()
    assert driver.story == ["join", "join"]


# covers: C17
@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
def test_retriable_errors_wait_for_the_backoff(code):
    driver = MemberDriver(retry_backoff_ms=100)
    driver.poll()
    driver.answer_join(code)
    driver.poll()
    again = driver.membership.poll_again_ms(driver.now_ms)
    assert driver.now_ms + 80 <= again <= driver.now_ms + 120
    assert driver.sent(JoinGroupRequest) == []
    driver.now_ms = again
    driver.poll()
    assert len(driver.sent(JoinGroupRequest)) == 1
    assert ("forget" in driver.story) == (code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


# covers: C17, B10
def test_a_broken_connection_forgets_the_coordinator_and_retries():
    driver = MemberDriver()
    driver.poll()
    driver.fail(JoinGroupRequest, ConnectionFailed("broker:9092", "connection reset"))
    driver.poll()
    driver.advance(200)
    driver.poll()
    assert driver.story == ["join", "forget", "join"]


# covers: C17
def test_a_lost_sync_joins_again_with_the_member_id():
    driver = MemberDriver()
    driver.poll()
    driver.answer_join(member_id="me")
    driver.fail(SyncGroupRequest, ConnectionFailed("broker:9092", "connection reset"))
    driver.poll()
    driver.advance(200)
    driver.poll()
    [request] = driver.sent(JoinGroupRequest)
    assert request.member_id == "me"


# covers: C17
def test_a_sync_under_a_rebalance_joins_again_at_once():
    driver = MemberDriver()
    driver.poll()
    driver.answer_join()
    driver.answer_sync(code=ErrorCode.REBALANCE_IN_PROGRESS)
    driver.poll()
    assert driver.story == ["join", "sync", "join"]
    assert driver.metrics.failed_rebalances == 1


# covers: C22
def test_a_changed_subscription_joins_again():
    driver = MemberDriver()
    driver.settle()
    driver.carry_out(driver.membership.subscribe(["t", "u"]))
    driver.poll()
    [request] = driver.sent(JoinGroupRequest)
    assert request.reason.startswith("subscription has changed from ['t']")


# covers: A37, E3, E4
def test_a_join_offers_one_subscription_per_assignor_in_order_of_preference():
    driver = MemberDriver(strategy="cooperative-sticky", rack="a", instance_id="i")
    driver.settle("t-1", generation=5)
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    [request] = driver.sent(JoinGroupRequest)
    [protocol] = request.protocols
    subscription = decode_subscription(protocol.metadata)
    assert protocol.name == "cooperative-sticky"
    assert subscription.rack_id == "a"
    assert [(each.topic, each.partitions) for each in subscription.owned_partitions] == [("t", [1])]
    assert subscription.generation_id == 5
    assert request.group_instance_id == "i"
    assert request.protocol_type == "consumer"


# covers: E6
def test_the_default_strategy_offers_range_then_cooperative_and_revokes_eagerly():
    driver = MemberDriver(strategy="range,cooperative-sticky")
    driver.settle("t-0")
    driver.carry_out(driver.membership.request_rejoin("test"))
    driver.poll()
    [request] = driver.sent(JoinGroupRequest)
    assert [each.name for each in request.protocols] == ["range", "cooperative-sticky"]
    assert "revoked{t-0}" in driver.story
