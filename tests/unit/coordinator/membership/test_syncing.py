"""SyncGroup: answers by state, storing the assignment, pending-sync expiry."""

import pytest

from seamark.coordinator import Settings, SyncGroup
from seamark.coordinator.storing.records import GroupStored
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver, subscription


def completing(driver: Driver, count: int = 2, **fields) -> list[str]:
    tokens = [driver.send_join(**fields) for _ in range(count)]
    driver.advance(3000 * count)
    return [driver.reply(token).member_id for token in tokens]


# covers: D28
def test_a_missing_or_empty_group_knows_no_member():
    driver = Driver()
    assert driver.sync("m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    [member_id] = driver.form_group(None)
    driver.leave(member_id)
    assert driver.sync(member_id, 2).error is ErrorCode.UNKNOWN_MEMBER_ID


# covers: D28
def test_member_generation_and_protocol_are_checked_in_this_order():
    driver = Driver()
    members = driver.form_group("i", None)
    assert driver.sync("nobody", 99, protocol_name="x").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync("old", 99, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.sync(members[1], 99, protocol_name="x").error is ErrorCode.ILLEGAL_GENERATION
    for wrong in ({"protocol_name": "sticky"}, {"protocol_type": "connect"}):
        assert driver.sync(members[1], 1, **wrong).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    right = {"protocol_type": "consumer", "protocol_name": "range"}
    assert driver.sync(members[1], 1, **right).error is ErrorCode.NONE
    assert driver.sync(members[1], 1).error is ErrorCode.NONE


# covers: D28
def test_from_version_5_the_protocol_is_mandatory():
    driver = Driver()
    [member_id] = driver.form_group(None)
    for given in ((None, None), ("consumer", None), (None, "range")):
        reply = driver.ask(SyncGroup("g", member_id, 1, (), None, *given, protocol_required=True))
        assert reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    reply = driver.ask(SyncGroup("g", member_id, 1, (), None, "consumer", "range", protocol_required=True))
    assert reply.error is ErrorCode.NONE


# covers: D28
def test_a_preparing_group_answers_rebalance_in_progress():
    driver = Driver()
    leader, follower = driver.form_group(None, None)
    driver.send_join(leader)
    assert driver.sync(follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


# covers: D28, A27
def test_in_completing_everyone_waits_until_the_leaders_assignment_is_stored():
    driver = Driver()
    driver.hold_appends()
    leader, follower = completing(driver)
    waiting = driver.send_sync(follower, 1)
    leading = driver.send_sync(leader, 1, {leader: b"L", follower: b"F"})
    assert driver.is_waiting(waiting)
    assert driver.is_waiting(leading)
    assert driver.state() == "CompletingRebalance"
    driver.acknowledge()
    assert driver.state() == "Stable"
    assert driver.reply(leading).assignment == b"L"
    reply = driver.reply(waiting)
    assert (reply.error, reply.protocol_type, reply.protocol_name, reply.assignment) == (
        ErrorCode.NONE,
        "consumer",
        "range",
        b"F",
    )


# covers: D28
def test_members_the_leader_forgot_get_an_empty_assignment_and_the_whole_group_is_stored():
    driver = Driver()
    leader, follower = completing(driver)
    waiting = driver.send_sync(follower, 1)
    driver.send_sync(leader, 1, {leader: b"L", "stranger": b"?"})
    assert (driver.reply(waiting).error, driver.reply(waiting).assignment) == (ErrorCode.NONE, b"")
    record = driver.log[-1]
    assert isinstance(record, GroupStored)
    assert (record.generation, record.protocol, record.leader) == (1, "range", leader)
    assert [(each.member_id, each.assignment) for each in record.members] == [(leader, b"L"), (follower, b"")]
    assert {each.subscription for each in record.members} == {subscription("t")}
    [line] = [line for line in driver.lines if line.event == "assignment_incomplete"]
    assert line.text.endswith(f"assigned nothing to {follower}")


# covers: D28
def test_a_stable_group_returns_the_stored_assignment():
    driver = Driver()
    leader, follower = completing(driver)
    driver.send_sync(leader, 1, {leader: b"L", follower: b"F"})
    assert driver.sync(follower, 1).assignment == b"F"
    assert driver.sync(follower, 1).assignment == b"F"
    # What a member that is not the leader sends, or the leader sends too late, changes nothing.
    assert driver.sync(leader, 1, {leader: b"new"}).assignment == b"L"


# covers: D28
def test_a_loading_coordinator_answers_rebalance_in_progress_and_a_foreign_one_not_coordinator():
    driver = Driver(is_loaded=False)
    assert driver.sync("m", 1).error is ErrorCode.NOT_COORDINATOR
    driver.shard.begin_load()
    assert driver.sync("m", 1).error is ErrorCode.REBALANCE_IN_PROGRESS


# covers: D28, N4
def test_a_repeated_sync_of_the_leader_stores_nothing_twice_and_answers_the_earlier_one():
    driver = Driver()
    driver.hold_appends()
    [leader] = completing(driver, 1)
    earlier = driver.send_sync(leader, 1, {leader: b"first"})
    later = driver.send_sync(leader, 1, {leader: b"second"})
    assert driver.reply(earlier).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(driver.waiting) == 1
    driver.acknowledge()
    assert driver.reply(later).assignment == b"first"


# covers: D28, F28
@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_when_the_assignment_cannot_be_stored_all_are_told_and_the_group_rebalances(code, answer):
    driver = Driver()
    driver.hold_appends()
    leader, follower = completing(driver)
    tokens = [driver.send_sync(follower, 1), driver.send_sync(leader, 1, {leader: b"L", follower: b"F"})]
    driver.refuse(code)
    assert [driver.reply(token).error for token in tokens] == [answer, answer]
    assert [driver.reply(token).assignment for token in tokens] == [b"", b""]
    assert driver.state() == "PreparingRebalance"
    assert driver.group().members[follower].assignment == b""


# covers: D28, F9
def test_an_assignment_that_is_late_starts_the_group_over_and_its_record_still_counts_when_it_arrives():
    driver = Driver()
    driver.hold_appends()
    [leader] = completing(driver, 1)
    token = driver.send_sync(leader, 1, {leader: b"L"})
    driver.advance(4999)
    assert driver.is_waiting(token)
    driver.advance(1)
    assert driver.reply(token).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.state() == "PreparingRebalance"
    driver.acknowledge()
    assert driver.state() == "PreparingRebalance"
    assert driver.group().stored.generation == 1
    driver.check_stored_state()


# covers: D14, D28
def test_a_record_overtaken_by_a_new_rebalance_is_stored_but_its_assignment_goes_to_nobody():
    driver = Driver()
    driver.hold_appends()
    [leader] = completing(driver, 1)
    token = driver.send_sync(leader, 1, {leader: b"L"})
    driver.send_join()
    assert driver.reply(token).error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.acknowledge()
    assert driver.state() == "PreparingRebalance"
    assert driver.group().members[leader].assignment == b""
    driver.check_stored_state()


# covers: D27
def test_members_that_never_sync_are_removed_static_ones_too_and_a_new_rebalance_is_prepared():
    driver = Driver()
    tokens = [driver.send_join(instance_id=each, session_timeout_ms=60_000) for each in (None, "s", None)]
    driver.advance(6000)
    leader, static, silent = (driver.reply(token).member_id for token in tokens)
    driver.send_sync(leader, 1, {leader: b"L"})
    assert driver.state() == "Stable"
    driver.advance(29_999)
    assert set(driver.group().members) == {leader, static, silent}
    driver.advance(1)
    assert set(driver.group().members) == {leader}
    assert driver.state() == "PreparingRebalance"
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


# covers: D27
def test_a_leader_that_never_syncs_is_removed_and_the_waiting_members_are_told():
    driver = Driver()
    leader, follower = completing(driver, session_timeout_ms=60_000)
    waiting = driver.send_sync(follower, 1)
    driver.advance(30_000)
    assert driver.reply(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(driver.group().members) == {follower}
    assert driver.group().leader == follower
    assert leader not in driver.group().members


# covers: D27
def test_the_expiry_is_cancelled_when_all_have_synced():
    driver = Driver()
    driver.form_group(None, None)
    assert not any(key[1] == "sync" for key in driver.timers)


# covers: D28
@pytest.mark.parametrize("group_id", ["", None])
def test_a_group_id_is_required(group_id):
    assert Driver().sync("m", 1, group_id=group_id).error is ErrorCode.INVALID_GROUP_ID


# covers: D27
def test_a_stale_or_early_sync_timer_does_nothing():
    driver = Driver(Settings(initial_rebalance_delay_ms=0))
    driver.send_join()
    driver.advance(0)
    [key] = [key for key in driver.timers if key[1] == "sync"]
    driver.carry_out(driver.shard.fire(key, 10))
    assert driver.state() == "CompletingRebalance"
    driver.send_sync("c-1", 1, {"c-1": b""})
    driver.carry_out(driver.shard.fire(key, 10**9))
    assert driver.state() == "Stable"
