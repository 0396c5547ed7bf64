"""What a consumer reads, the listener it tells, and the order of a poll over the whole core."""

import re

import pytest

from seamark.client.arguments import read_partitions
from seamark.client.core.assignment_state import Position
from seamark.client.core.effects import CallListener, FindCoordinator, ListenerCall
from seamark.client.core.listener import Listener, ListenerFailed, listener_error
from seamark.client.core.membership.context import MemberState
from seamark.client.core.subscriptions import Subscription, SubscriptionKind, read_topics
from seamark.client.errors import BrokerError, WakeUp
from seamark.client.records import Offset
from seamark.errors import UsageError
from seamark.wire.protocol.consumer_protocol import decode_subscription
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.join_group import JoinGroupRequest
from tests.support.core_driver import CoreDriver, view_of
from tests.support.membership_driver import tp, tps

T0, T1 = tp("t-0"), tp("t-1")
NO_LISTENER = Listener()


@pytest.mark.parametrize("text", ["orders", "orders.eu", "a_b-c.1"])
def test_a_text_that_could_be_a_topic_is_one(text):
    assert read_topics(text) == (text,)


@pytest.mark.parametrize("text", ["^orders", "orders.*", r"orders\.eu", "(a|b)"])
def test_any_other_text_is_a_pattern(text):
    assert read_topics(text) == re.compile(text)


@pytest.mark.parametrize("wanted", [7, b"t", None, [""], ["a b"], [3], ["."], "(", re.compile(b"x")])
def test_what_cannot_be_topics_is_refused_in_a_sentence(wanted):
    with pytest.raises(UsageError):
        read_topics(wanted)


@pytest.mark.parametrize("wanted", ["t", 7, [("t",)], [("t", -1)], [("t", True)], [("", 0)], [(3, 0)], ["t-0"]])
def test_what_cannot_be_partitions_is_refused_in_a_sentence(wanted):
    with pytest.raises(UsageError):
        read_partitions(wanted)


def test_a_plain_tuple_is_a_partition():
    assert read_partitions([("t", 0), ("t", 0)]) == (T0,)


def test_topics_patterns_and_own_choice_exclude_each_other_until_unsubscribed():
    subscription = Subscription()
    subscription.subscribe(["b", "a"], NO_LISTENER)
    assert subscription.topics == ("a", "b")
    subscription.subscribe(["c"], NO_LISTENER)
    for change in (lambda: subscription.subscribe(re.compile("x"), NO_LISTENER), subscription.assign):
        with pytest.raises(UsageError, match=r"unsubscribe\(\)"):
            change()
    subscription.clear()
    subscription.assign()
    assert subscription.kind is SubscriptionKind.ASSIGNED


# covers: C6
def test_a_pattern_matches_whole_names_of_usable_topics_and_no_internal_ones():
    subscription = Subscription()
    subscription.subscribe(re.compile(r".*a|__.*"), NO_LISTENER)
    view = view_of(
        {"a": 1, "ba": 1, "ab": 1, "__x": 1, "za": 1},
        errors={"za": ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        internal=["__x"],
    )
    assert subscription.match(view)
    assert subscription.topics == ("a", "ba")
    assert not subscription.match(view)
    everything = Subscription(excludes_internal=False)
    everything.subscribe(re.compile("__.*"), NO_LISTENER)
    everything.match(view)
    assert everything.topics == ("__x",)


# covers: I26
def test_a_listener_without_on_lost_hears_of_lost_partitions_as_revoked():
    heard = []
    two = Listener.checked(None, lambda partitions: heard.append(("revoked", partitions)), None)
    two.run(CallListener(ListenerCall.LOST, (T0,)))
    two.run(CallListener(ListenerCall.ASSIGNED, (T0,)))
    assert heard == [("revoked", [T0])]
    three = Listener.checked(None, None, lambda partitions: heard.append(("lost", partitions)))
    three.run(CallListener(ListenerCall.LOST, (T1,)))
    three.run(CallListener(ListenerCall.REVOKED, (T1,)))
    assert heard[1:] == [("lost", [T1])]


def test_listeners_that_cannot_be_called_are_refused():
    async def later(partitions):
        return partitions

    with pytest.raises(UsageError, match="on_revoked must be a function"):
        Listener.checked(None, 3, None)
    with pytest.raises(UsageError, match="AsyncConsumer"):
        Listener.checked(later, None, None)
    assert Listener.checked(later, None, None, may_await=True).on_assigned is later


def test_an_exception_of_a_listener_names_it_and_an_interruption_stays_what_it_is():
    call = CallListener(ListenerCall.REVOKED, ())
    failed = listener_error(call, KeyError("x"))
    assert isinstance(failed, ListenerFailed)
    assert "on_revoked raised KeyError" in str(failed)
    assert isinstance(failed.__cause__, KeyError)
    for interruption in (WakeUp(), KeyboardInterrupt()):
        assert listener_error(call, interruption) is interruption


def test_subscribing_without_a_group_is_refused():
    with pytest.raises(UsageError, match=r"group\.id"):
        CoreDriver(group="").core.subscribe(["t"], NO_LISTENER, 0)


# covers: C1, C6
def test_a_poll_matches_the_pattern_before_it_joins():
    driver = CoreDriver(view=view_of({"a1": 1}))
    driver.core.subscribe(re.compile("a.*"), NO_LISTENER, driver.now_ms)
    driver.poll()
    assert driver.names() == [], "fresh metadata comes first"
    driver.core.metadata_changed(view_of({"a1": 1, "a2": 1, "b": 1}, version=2), driver.now_ms)
    driver.poll()
    [sent] = driver.requests
    assert isinstance(sent.request, JoinGroupRequest)
    assert decode_subscription(sent.request.protocols[0].metadata).topics == ["a1", "a2"]


# covers: B21, C4, C10
def test_a_poll_without_a_coordinator_returns_and_asks_for_one():
    driver = CoreDriver(knows_coordinator=False)
    driver.core.subscribe(["t"], NO_LISTENER, driver.now_ms)
    driver.poll()
    assert driver.names() == []
    assert any(isinstance(effect, FindCoordinator) for effect in driver.wanted)


# covers: C8, C9
def test_a_manual_poll_sends_pending_requests_and_does_not_join():
    driver = CoreDriver()
    driver.assign()
    driver.core.commit_async({T0: Offset(3)}, driver.now_ms)
    driver.poll()
    assert sorted(driver.names()) == ["OffsetCommit", "OffsetFetch"]
    assert driver.core.membership.state is MemberState.UNJOINED


# covers: C1, I14, I5
def test_auto_commit_is_the_last_thing_a_poll_does_and_only_a_poll_does_it():
    driver = CoreDriver(auto_commit=True, interval_ms=5000)
    driver.join()
    driver.committed({"t-0": 0, "t-1": 0})
    driver.core.assignment.consumed(T0, 1, Position(10, 2))
    driver.advance(2900)
    driver.poll()
    driver.requests.clear()
    driver.advance(2200)
    assert "OffsetCommit" not in driver.names(), "time alone commits nothing"
    driver.poll()
    request = driver.commit_answered()
    stored = {
        (each.name, part.partition_index): (part.committed_offset, part.committed_leader_epoch)
        for each in request.topics
        for part in each.partitions
    }
    assert stored == {("t", 0): (10, 2), ("t", 1): (0, -1)}
    driver.poll()
    assert "OffsetCommit" not in driver.names()


# covers: I5
def test_assigning_other_partitions_commits_what_was_read_of_the_old_ones():
    driver = CoreDriver(auto_commit=True)
    driver.assign("t-0")
    driver.poll()
    driver.committed({"t-0": 4})
    driver.core.assignment.consumed(T0, 1, Position(9))
    driver.core.assignment.came_back()
    driver.core.assignment.consumed(T0, 1, Position(12))
    driver.assign("t-1")
    committed = driver.commit_answered().topics[0].partitions[0].committed_offset
    assert committed == 9, "what was handed out since the caller last came is not processed yet"
    assert driver.fetching == {}


# covers: I6
def test_auto_commit_that_met_a_passing_error_is_due_again_after_the_backoff():
    driver = CoreDriver(auto_commit=True, interval_ms=5000)
    driver.assign()
    driver.poll()
    driver.committed({"t-0": 4})
    driver.advance(5000)
    driver.poll()
    driver.commit_answered(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    driver.poll()
    assert driver.names() == []
    driver.advance(150)
    driver.poll()
    assert driver.names() == ["OffsetCommit"]


# covers: I30
def test_the_next_auto_commit_sends_a_sought_position():
    driver = CoreDriver(auto_commit=True, interval_ms=5000)
    driver.assign()
    driver.poll()
    driver.committed({"t-0": 4})
    driver.core.seek(T0, Position(1), driver.now_ms)
    driver.advance(5000)
    driver.poll()
    assert driver.commit_answered().topics[0].partitions[0].committed_offset == 1


# covers: C30, I27
def test_an_eager_rebalance_stops_fetching_commits_and_revokes_before_it_joins():
    driver = CoreDriver(auto_commit=True)
    driver.join()
    driver.committed({"t-0": 0, "t-1": 0})
    driver.core.assignment.consumed(T0, 1, Position(6))
    driver.heard.clear()
    driver.core.membership.request_rejoin("test")
    driver.poll()
    assert driver.fetching == {}
    assert driver.names() == ["OffsetCommit"]
    assert driver.heard == []
    assert driver.commit_answered().topics[0].partitions[0].committed_offset == 6
    driver.poll()
    assert driver.heard == [("on_revoked", ["t-0", "t-1"])]
    assert driver.names() == ["JoinGroup"]


# covers: C30
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_a_commit_before_the_join_that_fails_for_good_does_not_stop_the_join(code):
    driver = CoreDriver(auto_commit=True)
    driver.join()
    driver.committed({"t-0": 0, "t-1": 0})
    driver.core.membership.request_rejoin("test")
    driver.poll()
    driver.commit_answered(code)
    driver.poll()
    assert driver.names() == ["JoinGroup"]


# covers: C30
def test_partitions_are_fetched_only_after_on_assigned_has_returned():
    driver = CoreDriver()
    driver.join(assigned="")
    driver.core.membership.request_rejoin("test")
    driver.poll()
    heard_before = len(driver.heard)
    driver.join(topics=None, assigned="t-0", generation=2)
    assert driver.heard[heard_before:] == [("on_assigned", ["t-0"])]
    assert driver.names() == ["OffsetFetch"]


# covers: L4
@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_a_topic_that_may_not_be_read_is_raised_once_per_picture_of_the_cluster(code):
    driver = CoreDriver(view=view_of({"t": 1, "u": 1}, errors={"u": code}))
    driver.core.subscribe(["t", "u"], NO_LISTENER, driver.now_ms)
    with pytest.raises(BrokerError, match="topics u") as raised:
        driver.poll()
    assert raised.value.code is code
    driver.poll()


def test_unsubscribing_reads_nothing_any_more_and_the_terms_go_on():
    driver = CoreDriver()
    driver.join(assigned="t-0")
    driver.committed({"t-0": 0})
    driver.core.prepare_leave(driver.now_ms)
    driver.core.listener_returned(None, driver.now_ms)
    driver.core.leave("test", driver.now_ms)
    driver.pump()
    assert driver.fetching == {}
    assert driver.names() == ["LeaveGroup"]
    assert driver.core.wanted_topics == frozenset()
    driver.core.assign(tps("t-0"), driver.now_ms)
    assert driver.core.assignment.require(T0).term == 2
