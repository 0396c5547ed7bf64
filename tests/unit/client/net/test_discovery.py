"""Finding the coordinator, as a pure core: what is sent when, and who is told in which order."""

from hypothesis import given
from hypothesis import strategies as st

from seamark.client.cluster_view import Node
from seamark.client.errors import AuthenticationFailed, ConnectionFailed, CoordinatorMoved, Refused
from seamark.client.net.discovery import (
    CoordinatorDiscovery,
    Disconnect,
    Found,
    LookUp,
    NotFound,
    Phase,
    WakeAt,
    coordinator_connection_id,
    coordinator_not_available,
)
from seamark.client.timing import ExponentialBackoff
from seamark.wire.protocol.error_codes import ErrorCode

ONE, TWO = Node(1, "one", 9092), Node(2, "two", 9092)
LOST = ConnectionFailed("one:9092", "the connection was lost")


def discovery():
    return CoordinatorDiscovery("demoGroup", ExponentialBackoff(100, 1000, jitter=0))


def known(node=ONE):
    core = discovery()
    core.want("first", 0)
    core.answered(0, node, 5)
    return core


def test_the_first_wish_sends_a_lookup_for_the_group():  # B1, B6
    assert discovery().want("a", 0) == [LookUp("demoGroup")]


def test_nothing_is_looked_up_ahead_of_need():  # B22
    core = discovery()
    assert core.woken(10_000) == []
    assert core.phase is Phase.IDLE


def test_one_lookup_is_outstanding_and_later_wishes_are_told_in_their_order():  # B24
    core = discovery()
    assert core.want("commit 1", 0) == [LookUp("demoGroup")]
    assert core.want("commit 2", 1) == []
    assert core.want("commit 3", 2) == []
    assert core.answered(0, ONE, 3) == [Found(ONE, ("commit 1", "commit 2", "commit 3"))]


def test_a_known_coordinator_is_used_at_once_without_a_lookup():  # B8
    assert known().want("later", 10) == [Found(ONE, ("later",))]


def test_an_error_code_means_another_lookup_after_a_backoff():  # B9
    core = discovery()
    core.want("a", 0)
    assert core.answered(ErrorCode.COORDINATOR_NOT_AVAILABLE, None, 10) == [WakeAt(110)]
    assert core.woken(50) == [WakeAt(110)]
    assert core.woken(110) == [LookUp("demoGroup")]
    assert core.answered(ErrorCode.COORDINATOR_NOT_AVAILABLE, None, 120) == [WakeAt(320)]


def test_an_io_failure_means_another_lookup_after_a_backoff():  # B10
    core = discovery()
    core.want("a", 0)
    assert core.io_failed(LOST, 10) == [WakeAt(110)]
    assert core.last_error is LOST


def test_a_wish_during_the_backoff_waits_for_the_same_retry():  # B24
    core = discovery()
    core.want("a", 0)
    core.io_failed(LOST, 10)
    assert core.want("b", 20) == []
    assert core.woken(110) == [LookUp("demoGroup")]
    assert core.answered(0, TWO, 111) == [Found(TWO, ("a", "b"))]


def test_a_coordinator_that_moved_is_looked_up_again_at_the_next_wish():  # B11
    core = known()
    assert core.moved(ONE, 50) == [Disconnect(ONE)]
    assert core.node is None
    assert core.want("b", 51) == [LookUp("demoGroup")]
    assert core.answered(0, TWO, 52) == [Found(TWO, ("b",))]


def test_stale_news_of_a_former_coordinator_changes_nothing():
    core = known(TWO)
    assert core.moved(ONE, 50) == []
    assert core.node == TWO


def test_a_refusal_is_told_to_all_and_not_retried():
    core = discovery()
    core.want("a", 0)
    core.want("b", 1)
    (action,) = core.answered(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, 5)
    assert isinstance(action, NotFound)
    assert action.tickets == ("a", "b")
    assert isinstance(action.error, Refused)
    assert "demoGroup" in str(action.error)
    assert core.want("c", 6) == [LookUp("demoGroup")]


def test_an_identity_that_is_not_accepted_ends_the_lookup():
    core = discovery()
    core.want("a", 0)
    (action,) = core.io_failed(AuthenticationFailed("one:9092", "PLAIN", "wrong password"), 5)
    assert isinstance(action, NotFound)


def test_one_who_gives_up_is_not_told_and_does_not_disturb_the_others():
    core = discovery()
    core.want("a", 0)
    core.want("b", 0)
    core.give_up("a")
    assert core.answered(0, ONE, 5) == [Found(ONE, ("b",))]


def test_a_retry_that_nobody_waits_for_is_not_sent():  # B22
    core = discovery()
    core.want("a", 0)
    core.io_failed(LOST, 0)
    core.give_up("a")
    assert core.woken(100) == []
    assert core.want("b", 101) == [LookUp("demoGroup")]


def test_a_late_answer_to_nothing_is_ignored():
    core = known()
    assert core.answered(0, TWO, 99) == []
    assert core.io_failed(LOST, 99) == []
    assert core.node == ONE


def test_the_coordinators_connection_is_numbered_down_from_the_largest_int():  # B25
    assert coordinator_connection_id(1) == 2147483646
    assert coordinator_connection_id(0) == 2147483647


def test_without_a_coordinator_a_request_fails_with_coordinator_not_available():  # B23
    error = coordinator_not_available("demoGroup")
    assert isinstance(error, CoordinatorMoved)
    assert error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


@given(st.lists(st.sampled_from(["want", "found", "error", "refused", "io", "moved", "wake", "give up"]), max_size=40))
def test_every_wish_is_told_once_and_never_two_lookups_are_out(events):  # B24
    core = discovery()
    now, wished, told, given_up, out = 0, [], [], set(), 0
    for number, event in enumerate(events):
        now += 60
        actions = []
        if event == "want":
            wished.append(number)
            actions = core.want(number, now)
        elif event == "wake":
            actions = core.woken(now)
        elif event == "moved":
            actions = core.moved(None, now)
        elif event == "give up" and wished:
            core.give_up(wished[-1])
            given_up.add(wished[-1])
        elif out and event in ("found", "error", "refused", "io"):
            out -= 1
            actions = {
                "found": lambda now=now: core.answered(0, ONE, now),
                "error": lambda now=now: core.answered(15, None, now),
                "refused": lambda now=now: core.answered(30, None, now),
                "io": lambda now=now: core.io_failed(LOST, now),
            }[event]()
        for action in actions:
            out += isinstance(action, LookUp)
            if isinstance(action, Found | NotFound):
                told += action.tickets
        assert out <= 1
    assert len(told) == len(set(told))
    assert [ticket for ticket in wished if ticket in told] == told
    waiting = [ticket for ticket in wished if ticket not in told and ticket not in given_up]
    assert core.waiting_count == len(waiting)
