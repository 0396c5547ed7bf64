"""JoinGroup: validation order, ids, capacity, and the current-member path."""

import pytest

from seamark.coordinator import DeleteGroups, Settings
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver, join_command, subscription


# covers: D2, D3, D4, A23
@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (5999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
        (-1, ErrorCode.INVALID_SESSION_TIMEOUT),
        (2**31 - 1, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_session_timeout_must_lie_in_the_inclusive_range(timeout_ms, code):
    driver = Driver()
    reply = driver.join(session_timeout_ms=timeout_ms, require_known_member_id=True)
    assert reply.error is code
    refused = driver.join("mine", session_timeout_ms=5999)
    assert (refused.error, refused.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "mine")


# covers: D2, D3
@pytest.mark.parametrize("group_id", ["", None])
def test_a_group_id_is_required_and_checked_before_the_session_timeout(group_id):
    reply = Driver().join("mine", group_id=group_id, session_timeout_ms=0)
    assert (reply.error, reply.member_id) == (ErrorCode.INVALID_GROUP_ID, "mine")


# covers: D2, D3, F14
def test_loading_and_foreign_partitions_answer_with_a_blank_member_id_after_the_session_timeout_check():
    driver = Driver(is_loaded=False)
    for status, code in (("unloaded", ErrorCode.NOT_COORDINATOR), ("loading", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)):
        if status == "loading":
            driver.shard.begin_load()
        reply = driver.join("mine")
        assert (reply.error, reply.member_id) == (code, "")
        assert driver.join("mine", session_timeout_ms=1).error is ErrorCode.INVALID_SESSION_TIMEOUT


# covers: D5, A26
def test_known_member_id_against_a_missing_group_is_unknown_and_creates_nothing():
    driver = Driver()
    reply = driver.join("m-1")
    assert (reply.error, reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "m-1")
    assert not driver.has_group()


# covers: D5, D13
@pytest.mark.parametrize(("protocol_type", "protocols"), [("", [("range", b"")]), ("consumer", [])])
def test_a_joiner_without_protocols_is_refused_and_creates_nothing(protocol_type, protocols):
    driver = Driver()
    reply = driver.join(protocol_type=protocol_type, protocols=protocols)
    assert (reply.error, reply.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert not driver.has_group()


# covers: D8, D12, A24
def test_a_new_dynamic_member_gets_an_id_first_and_is_a_member_only_after_joining_with_it():
    driver = Driver()
    reply = driver.join(require_known_member_id=True)
    assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id == "c-1"
    assert not driver.group().members
    assert list(driver.group().pending) == ["c-1"]
    token = driver.send_join("c-1", require_known_member_id=True)
    assert list(driver.group().members) == ["c-1"]
    assert not driver.group().pending
    driver.advance(3000)
    assert driver.reply(token).error is ErrorCode.NONE


# covers: D12, D19
def test_a_pending_id_that_never_returns_is_forgotten_after_its_session_timeout_and_holds_up_the_join_until_then():
    driver = Driver()
    [first] = driver.form_group(None)
    driver.join(require_known_member_id=True, session_timeout_ms=8000)
    token = driver.send_join(first)
    driver.advance(7999)
    assert driver.is_waiting(token)
    driver.advance(1)
    assert driver.reply(token).generation == 2
    assert not driver.group().pending
    assert ("pending_member_expired", "g") in driver.events


# covers: D12
def test_the_pending_expiry_does_not_fire_for_a_member_that_has_joined():
    driver = Driver()
    reply = driver.join(require_known_member_id=True, session_timeout_ms=6000)
    token = driver.send_join(reply.member_id, session_timeout_ms=6000)
    driver.advance(3000)
    joined = driver.reply(token)
    driver.sync(joined.member_id, 1, {joined.member_id: b"x"})
    driver.advance(3001)
    assert driver.state() == "Stable"


# covers: D12, D33, A24
def test_members_of_old_versions_and_static_members_need_no_second_round():
    driver = Driver()
    driver.send_join(require_known_member_id=False)
    driver.send_join(instance_id="i", require_known_member_id=True)
    assert list(driver.group().members) == ["c-1", "i-2"]


# covers: D6, D7
def test_a_full_group_refuses_new_members_with_a_blank_id_but_accepts_its_own():
    driver = Driver(Settings(max_group_size=2))
    first, second = driver.form_group(None, None)
    for extra in ("", "c-99"):
        reply = driver.join(extra)
        assert (reply.error, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.state() == "Stable"
    assert driver.join(second).error is ErrorCode.NONE
    driver.send_join(first)
    assert driver.state() == "PreparingRebalance"


# covers: D7, D33
def test_a_static_member_that_returns_with_a_blank_id_counts_as_new():
    driver = Driver(Settings(max_group_size=1))
    driver.form_group("i")
    assert driver.join(instance_id="i").error is ErrorCode.GROUP_MAX_SIZE_REACHED


# covers: D7
def test_completing_group_counts_its_members_and_empty_group_accepts_always():
    driver = Driver(Settings(max_group_size=1))
    token = driver.send_join()
    driver.advance(3000)
    assert driver.state() == "CompletingRebalance"
    assert driver.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    member_id = driver.reply(token).member_id
    driver.leave(member_id)
    assert driver.state() == "Empty"
    driver.send_join()
    assert driver.state() == "PreparingRebalance"


# covers: D6, D7, D10
def test_while_rejoining_the_first_comers_keep_their_places_and_the_last_loses_it():
    driver = Driver()
    members = driver.form_group(None, None, None)
    object.__setattr__(driver.settings, "max_group_size", 2)
    tokens = [driver.send_join(member_id) for member_id in members[:2]]
    assert all(driver.is_waiting(token) for token in tokens)
    again = driver.send_join(members[0])
    reply = driver.join(members[2])
    assert (reply.error, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.reply(again).generation == 2
    assert set(driver.group().members) == set(members[:2])


# covers: D9, D17, M8
def test_the_reason_of_a_join_is_passed_on_to_the_log_and_has_a_default():
    driver = Driver()
    driver.send_join()
    assert "client reason: not provided" in driver.lines[-1].text
    driver = Driver()
    driver.send_join(reason="need to revoke partitions and re-join")
    assert "client reason: need to revoke partitions and re-join" in driver.lines[-1].text


# covers: D13
def test_a_protocol_must_be_shared_with_all_members_and_that_is_checked_before_the_member_id():
    driver = Driver()
    driver.form_group(None, None, protocols=[("range", b""), ("sticky", b"")])
    assert driver.join(protocols=[("roundrobin", b"")]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join("nobody", protocols=[("roundrobin", b"")]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join("nobody", protocols=[]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join("nobody", protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join("nobody").error is ErrorCode.UNKNOWN_MEMBER_ID


# covers: D13
def test_a_sole_member_that_offers_a_disjoint_list_is_refused_too():
    driver = Driver()
    [member_id] = driver.form_group(None)
    reply = driver.join(member_id, protocols=[("sticky", b"")])
    assert (reply.error, reply.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    assert driver.state() == "Stable"


# covers: D13
def test_a_member_of_an_empty_group_is_unknown():
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.leave(member_id)
    assert driver.state() == "Empty"
    assert driver.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


# covers: D13
def test_in_completing_unchanged_protocols_get_the_same_generation_again_and_changed_ones_start_over():
    driver = Driver()
    tokens = [driver.send_join(), driver.send_join()]
    driver.advance(6000)
    leader, follower = (driver.reply(token).member_id for token in tokens)
    again = driver.join(leader)
    assert (again.generation, len(again.members), again.skip_assignment) == (1, 2, False)
    again = driver.join(follower)
    assert (again.generation, again.members, again.leader) == (1, [], leader)
    assert driver.state() == "CompletingRebalance"
    driver.send_join(follower, protocols=[("range", subscription("u"))])
    assert driver.state() == "PreparingRebalance"


# covers: D13
def test_in_stable_the_leader_or_a_changed_follower_forces_a_rebalance_and_an_unchanged_follower_does_not():
    driver = Driver()
    leader, follower = driver.form_group(None, None)
    again = driver.join(follower)
    assert (again.error, again.generation, again.members) == (ErrorCode.NONE, 1, [])
    assert driver.state() == "Stable"
    waiting = driver.send_join(follower, protocols=[("range", subscription("u"))])
    assert driver.state() == "PreparingRebalance"
    driver.send_join(leader)
    assert driver.reply(waiting).generation == 2
    driver = Driver()
    leader, follower = driver.form_group(None, None)
    driver.send_join(leader)
    assert driver.state() == "PreparingRebalance"


# covers: D13, N4
def test_in_preparing_a_repeated_join_updates_the_member_and_answers_the_earlier_request():
    driver = Driver()
    first, _ = driver.form_group(None, None)
    earlier = driver.send_join(first)
    later = driver.send_join(first, protocols=[("range", subscription("u"))], session_timeout_ms=7000)
    assert driver.reply(earlier).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.is_waiting(later)
    member = driver.group().members[first]
    assert member.protocols == (("range", subscription("u")),)
    assert member.session_timeout_ms == 7000


# covers: D13
def test_a_group_that_is_being_removed_answers_like_a_dead_one():
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.leave(member_id)
    driver.hold_appends()
    driver.send(DeleteGroups(["g"]))
    for member in ("", member_id):
        reply = driver.join(member)
        assert (reply.error, reply.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, member)
    driver.acknowledge()
    assert not driver.has_group()


# covers: D8
def test_a_pending_id_cannot_be_used_by_a_static_member():
    driver = Driver()
    pending = driver.join(require_known_member_id=True).member_id
    assert driver.join(pending, instance_id="i").error is ErrorCode.UNKNOWN_MEMBER_ID


# covers: D13
def test_a_protocol_named_twice_counts_once():
    driver = Driver()
    driver.send_join(protocols=[("range", b"1"), ("range", b"2")])
    driver.send_join(protocols=[("range", b"3")])
    driver.advance(6000)
    assert driver.group().protocol == "range"
    assert [each.metadata for each in driver.group().member_list()] == [b"1", b"3"]


# covers: A23, D16
def test_a_join_of_version_0_has_no_rebalance_timeout_and_takes_the_session_timeout():
    command = join_command(rebalance_timeout_ms=-1, session_timeout_ms=9000)
    assert command.effective_rebalance_timeout_ms == 9000
    driver = Driver()
    driver.send(command)
    assert driver.group().rebalance_timeout_ms == 9000


# covers: D11
def test_each_call_leaves_the_group_whole_so_calls_of_many_members_can_interleave():
    driver = Driver()
    tokens = {}
    for _ in range(5):
        tokens[driver.send_join()] = None
    driver.advance(30_000)
    group = driver.group()
    assert group.waiting_joins == 0
    assert {driver.reply(token).generation for token in tokens} == {1}
    assert sum(len(driver.reply(token).members) for token in tokens) == 5
