"""Where partitions are read from: committed offsets, reset policies, validation, seeks, and late answers."""

import pytest

from seamark.client.core.assignment_state import AssignmentState, Phase, Position
from seamark.client.core.effects import FindCoordinator, ForgetCoordinator, RefreshMetadata
from seamark.client.core.fetch_port import FailureKind, FetchFailure
from seamark.client.core.positions.positions import LogTruncated
from seamark.client.core.positions.reset import EARLIEST, LATEST, ResetPolicy
from seamark.client.errors import BrokerError, ConnectionFailed, NoOffsetForPartition, OffsetOutOfRange
from seamark.client.records import Offset
from seamark.errors import ConfigError, UsageError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.list_offsets import ListOffsetsRequest
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.support.core_driver import CoreDriver, view_of
from tests.support.membership_driver import tp, tps

T0, T1 = tp("t-0"), tp("t-1")


# covers: I1
def test_a_partition_is_read_from_its_committed_offset():
    driver = CoreDriver()
    driver.join()
    assert driver.names() == ["OffsetFetch"]
    driver.committed({"t-0": 7, "t-1": 9})
    assert driver.fetching == {T0: (7, 1), T1: (9, 1)}


# covers: B22
def test_manual_assignment_looks_nothing_up_before_the_first_poll():
    driver = CoreDriver(knows_coordinator=False)
    driver.assign()
    assert driver.wanted == []
    driver.poll()
    assert any(isinstance(effect, FindCoordinator) for effect in driver.wanted)


def test_a_consumer_without_a_group_goes_by_the_policy_at_once():
    driver = CoreDriver(group="")
    driver.assign()
    driver.poll()
    assert driver.names() == ["ListOffsets"]


# covers: I30, F25
@pytest.mark.parametrize(("policy", "timestamp"), [("earliest", EARLIEST), ("latest", LATEST)])
def test_without_a_committed_offset_the_policy_decides(policy, timestamp):
    driver = CoreDriver(policy=policy)
    driver.assign()
    driver.poll()
    driver.committed({})
    request = driver.listed(42)
    assert request.topics[0].partitions[0].timestamp == timestamp
    assert request.topics[0].partitions[0].current_leader_epoch == 0
    assert driver.fetching == {T0: (42, 1)}


# covers: I30
def test_by_duration_goes_back_from_now_and_ends_at_the_end_if_nothing_is_that_young():
    driver = CoreDriver(policy="by_duration:PT1M")
    driver.assign()
    driver.poll()
    driver.committed({})
    assert driver.listed(-1).topics[0].partitions[0].timestamp == driver.wall_ms - 60_000
    assert driver.listed(10).topics[0].partitions[0].timestamp == LATEST
    assert driver.fetching == {T0: (10, 1)}


# covers: I30
def test_the_policy_none_raises_for_all_partitions_together_until_a_seek():
    driver = CoreDriver(policy="none")
    driver.assign("t-0 t-1")
    driver.poll()
    driver.committed({})
    for _ in range(2):
        with pytest.raises(NoOffsetForPartition) as raised:
            driver.poll()
        assert raised.value.partitions == (T0, T1)
    driver.core.seek(T0, Position(3), driver.now_ms)
    with pytest.raises(NoOffsetForPartition) as raised:
        driver.poll()
    assert raised.value.partitions == (T1,)
    assert driver.fetching == {T0: (3, 1)}


# covers: I30
@pytest.mark.parametrize(
    ("text", "back_ms"),
    [
        ("by_duration:PT0S", 0),
        ("by_duration:P7D", 604_800_000),
        ("by_duration:P1DT2H3M4.5S", 93_784_500),
        ("by_duration:PT1H", 3_600_000),
    ],
)
def test_durations_are_read_as_iso_8601(text, back_ms):
    assert ResetPolicy.parse(text).back_ms == back_ms


# covers: I30
@pytest.mark.parametrize(
    "text",
    ["Earliest", "LATEST", "smallest", "", "by_duration:", "by_duration:-PT1H", "by_duration:PT", "by_duration:1h"],
)
def test_policies_that_are_none_are_refused(text):
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        ResetPolicy.parse(text)


# covers: F14, F22
def test_a_loading_coordinator_is_asked_again_and_stays_the_coordinator():
    driver = CoreDriver()
    driver.join()
    driver.committed({}, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert driver.names() == []
    driver.advance(200)
    assert driver.names() == ["OffsetFetch"]
    assert not any(isinstance(effect, ForgetCoordinator) for effect in driver.wanted)


# covers: F22
def test_a_coordinator_that_moved_is_looked_up_again():
    driver = CoreDriver()
    driver.join()
    driver.committed({}, code=ErrorCode.NOT_COORDINATOR)
    assert sum(isinstance(effect, ForgetCoordinator) for effect in driver.wanted) >= 1
    assert not driver.core.membership.is_coordinator_known
    driver.advance(200)
    driver.poll()
    assert driver.names() == ["OffsetFetch"]


# covers: F23
def test_an_offset_fetch_over_a_broken_connection_rediscovers():
    driver = CoreDriver()
    driver.join()
    driver.fail(OffsetFetchRequest, ConnectionFailed("b:1", "reset"))
    assert any(isinstance(effect, ForgetCoordinator) for effect in driver.wanted)
    driver.advance(200)
    driver.poll()
    driver.committed({"t-0": 1, "t-1": 2})
    assert driver.fetching == {T0: (1, 1), T1: (2, 1)}


# covers: F11
def test_an_unstable_offset_is_waited_for():
    driver = CoreDriver()
    driver.assign()
    driver.poll()
    driver.committed({}, partition_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    driver.advance(200)
    driver.committed({"t-0": 5})
    assert driver.fetching == {T0: (5, 1)}


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_an_error_that_waiting_does_not_heal_is_raised_once_and_then_tried_again(code):
    driver = CoreDriver()
    driver.assign()
    driver.poll()
    driver.committed({}, code=code)
    with pytest.raises(BrokerError, match=code.name):
        driver.poll()
    driver.poll()
    driver.advance(200)
    assert driver.names() == ["OffsetFetch"]


def test_a_partition_without_a_leader_waits_for_metadata():
    driver = CoreDriver(view=view_of({"t": 1}, leader=-1))
    driver.assign()
    driver.poll()
    driver.committed({})
    assert driver.names() == []
    assert RefreshMetadata(frozenset({"t"})) in driver.wanted
    driver.core.metadata_changed(view_of({"t": 1}, version=2), driver.now_ms)
    driver.advance(200)
    driver.listed(0)
    assert driver.fetching == {T0: (0, 1)}


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_leader_that_moved_is_asked_again_after_a_refresh(code):
    driver = CoreDriver(group="")
    driver.assign()
    driver.poll()
    driver.listed(-1, code=code)
    assert RefreshMetadata(frozenset({"t"})) in driver.wanted
    driver.advance(200)
    driver.listed(4)
    assert driver.fetching == {T0: (4, 1)}


def test_an_offset_that_was_committed_with_an_epoch_is_validated_before_it_is_fetched():
    driver = CoreDriver(view=view_of({"t": 1}, epoch=5))
    driver.assign()
    driver.poll()
    driver.committed({"t-0": (10, 3)})
    assert driver.fetching == {}
    request = driver.epoch_ended(3, 20)
    asked = request.topics[0].partitions[0]
    assert (asked.current_leader_epoch, asked.leader_epoch) == (5, 3)
    assert driver.fetching == {T0: (10, 1)}


@pytest.mark.parametrize(
    ("policy", "end", "expected"),
    [("earliest", (3, 8), 8), ("none", (3, 8), LogTruncated), ("none", (-1, -1), LogTruncated)],
)
def test_a_log_that_ended_before_the_position_was_truncated(policy, end, expected):
    driver = CoreDriver(policy=policy, view=view_of({"t": 1}, epoch=5))
    driver.assign()
    driver.poll()
    driver.committed({"t-0": (10, 3)})
    driver.epoch_ended(*end)
    if expected is LogTruncated:
        with pytest.raises(LogTruncated, match="t-0 was truncated") as raised:
            driver.poll()
        assert raised.value.position == (10, 3)
        assert raised.value.divergence == (None if end[0] < 0 else (8, 3))
        assert driver.fetching == {}
    else:
        assert driver.fetching == {T0: (expected, 1)}


def test_an_epoch_that_the_leader_never_knew_resets_by_policy():
    driver = CoreDriver(policy="earliest", view=view_of({"t": 1}, epoch=5))
    driver.assign()
    driver.poll()
    driver.committed({"t-0": (10, 3)})
    driver.epoch_ended(-1, -1)
    driver.listed(2)
    assert driver.fetching == {T0: (2, 1)}


def test_a_new_leader_has_the_position_checked_while_the_caller_waits():
    driver = CoreDriver(view=view_of({"t": 1}, epoch=5))
    driver.assign()
    driver.poll()
    driver.committed({"t-0": 0})
    assert driver.core.assignment.consumed(T0, 1, Position(30, 5))
    driver.core.metadata_changed(view_of({"t": 1}, epoch=6, version=2), driver.now_ms)
    driver.pump()
    assert driver.core.wants_caller
    assert T0 in driver.fetching, "only poll stops what is being consumed"
    driver.poll()
    assert driver.fetching == {}
    driver.epoch_ended(5, 30)
    assert driver.fetching == {T0: (30, 1)}


# covers: terms
def test_a_seek_overtakes_a_look_up_that_is_under_way():
    driver = CoreDriver(group="")
    driver.assign()
    driver.poll()
    driver.core.seek(T0, Position(77), driver.now_ms)
    driver.pump()
    assert driver.fetching == {T0: (77, 1)}
    driver.listed(5)
    assert driver.fetching == {T0: (77, 1)}


# covers: terms
def test_an_answer_for_an_earlier_assignment_is_dropped():
    driver = CoreDriver(group="")
    driver.assign("t-0")
    driver.poll()
    driver.assign("t-1")
    driver.assign("t-0")
    driver.listed(5)
    assert driver.fetching == {}
    driver.poll()
    driver.listed(6)
    assert driver.fetching == {T0: (6, 2)}


def reset_to_latest() -> CoreDriver:
    """Its position was out of range, and the policy has set it to the end of the log."""
    driver = CoreDriver(policy="latest")
    driver.assign()
    driver.poll()
    driver.committed({"t-0": 5})
    driver.core.fetch_failed(FetchFailure(T0, 1, FailureKind.OUT_OF_RANGE, Position(5)), driver.now_ms)
    driver.pump()
    driver.listed(99)
    return driver


# covers: I30
def test_a_position_out_of_range_is_reset_by_the_policy_or_raised():
    driver = reset_to_latest()
    assert driver.fetching == {T0: (99, 1)}
    strict = CoreDriver(policy="none")
    strict.assign()
    strict.poll()
    strict.committed({"t-0": 5})
    strict.core.fetch_failed(FetchFailure(T0, 1, FailureKind.OUT_OF_RANGE, Position(5)), strict.now_ms)
    with pytest.raises(OffsetOutOfRange, match="t-0 at 5"):
        strict.poll()


# covers: terms
def test_trouble_of_an_earlier_term_is_nobodys_trouble():
    driver = CoreDriver()
    driver.assign()
    driver.poll()
    driver.committed({"t-0": 5})
    driver.core.fetch_failed(FetchFailure(T0, 0, FailureKind.OUT_OF_RANGE, Position(5)), driver.now_ms)
    assert driver.fetching == {T0: (5, 1)}


def test_a_diverged_fetch_goes_back_to_where_the_logs_part():
    driver = CoreDriver()
    driver.assign()
    driver.poll()
    driver.committed({"t-0": 50})
    driver.core.fetch_failed(FetchFailure(T0, 1, FailureKind.DIVERGED, Position(40, 2)), driver.now_ms)
    driver.pump()
    assert driver.fetching == {T0: (40, 1)}


def test_each_assignment_raises_the_term_and_starts_anew():
    state = AssignmentState()
    state.own([T0], is_held=False)
    state.require(T0).position = Position(5)
    state.require(T0).phase = Phase.READY
    assert state.consumed(T0, 1, Position(6))
    assert state.own([T0, T1], is_held=True) == []
    assert state.require(T0).position == Position(6), "what stays keeps its position"
    assert state.own([T1], is_held=True) == [T0]
    state.own([T0, T1], is_held=True)
    assert (state.require(T0).term, state.require(T1).term) == (2, 1)
    assert not state.consumed(T0, 1, Position(7)), "records of an earlier term count for nothing"
    with pytest.raises(UsageError, match="x-0 is not assigned"):
        state.require(tp("x-0"))


def test_positions_are_asked_for_in_one_request_per_leader():
    driver = CoreDriver(group="")
    driver.assign("t-0 t-1 t-2 t-3")
    driver.poll()
    [sent] = driver.requests
    assert sent.node_id == 1
    assert len(sent.request.topics) == 1
    assert [each.partition_index for each in sent.request.topics[0].partitions] == [0, 1, 2, 3]


def test_seeking_to_the_beginning_is_looked_up_lazily_and_lost_answers_are_asked_again():
    driver = CoreDriver()
    driver.assign("t-0")
    driver.core.seek_to_time(tps("t-0"), EARLIEST, driver.now_ms)
    driver.pump()
    assert driver.names() == []
    driver.poll()
    driver.fail(ListOffsetsRequest, ConnectionFailed("b:1", "reset"))
    driver.advance(200)
    assert driver.listed(3).topics[0].partitions[0].timestamp == EARLIEST
    assert driver.fetching == {T0: (3, 1)}


def test_a_position_that_is_thrown_away_is_logged_with_the_new_one():
    driver = reset_to_latest()
    [line] = [each for each in driver.wanted if getattr(each, "event", "") == "position_reset"]
    fields = dict(line.fields)
    assert (line.level, fields["partition"], fields["policy"]) == ("warning", "t-0", "latest")
    assert (fields["old_offset"], fields["new_offset"]) == (5, 99)
    assert "OFFSET_OUT_OF_RANGE" in line.text


def test_resets_that_lead_out_of_range_again_wait_for_the_backoff():
    driver = CoreDriver(policy="earliest")
    driver.assign()
    driver.poll()
    driver.committed({"t-0": 5})
    for offset in (5, 0):
        driver.core.fetch_failed(FetchFailure(T0, 1, FailureKind.OUT_OF_RANGE, Position(offset)), driver.now_ms)
        driver.pump()
        if offset:
            driver.listed(0)
    assert driver.core.assignment.require(T0).retry_at_ms > driver.now_ms
    for _ in range(8):
        driver.advance(1200)
        driver.pump()
        driver.listed(0)
        driver.core.fetch_failed(FetchFailure(T0, 1, FailureKind.OUT_OF_RANGE, Position(0)), driver.now_ms)
        driver.pump()
    [line] = [each for each in driver.wanted if getattr(each, "event", "") == "partition_waits"]
    assert "OFFSET_OUT_OF_RANGE" in line.text
    driver.advance(1200)
    driver.pump()
    driver.listed(0)
    driver.core.assignment.consumed(T0, 1, Position(3))
    driver.poll()
    assert [each for each in driver.wanted if getattr(each, "event", "") == "partition_goes_on"]


def test_a_log_without_a_beginning_is_asked_for_again_after_the_backoff_and_not_read_from_its_end():
    driver = CoreDriver(policy="earliest")
    driver.assign()
    driver.poll()
    driver.committed({})
    driver.listed(-1)
    state = driver.core.assignment.require(T0)
    assert (state.phase, state.reset_timestamp) == (Phase.RESET, None)
    assert state.retry_at_ms > driver.now_ms


def test_a_leader_epoch_below_none_is_refused():
    with pytest.raises(UsageError, match="leader epoch"):
        Offset(5, leader_epoch=-2)
