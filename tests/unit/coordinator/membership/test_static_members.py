"""Static members that come back: replacement, fencing, and when the group rebalances."""

import pytest

from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver, assignment_of, subscription


# covers: D33, A24
def test_a_returning_static_leader_of_a_stable_group_gets_the_member_list_and_may_skip_the_assignment():
    driver = Driver()
    old, other = driver.form_group("i", None)
    reply = driver.join(instance_id="i")
    assert (reply.error, reply.generation, reply.skip_assignment) == (ErrorCode.NONE, 1, True)
    assert reply.member_id != old
    assert reply.leader == reply.member_id
    assert {each.member_id for each in reply.members} == {reply.member_id, other}
    assert driver.state() == "Stable"
    assert driver.sync(reply.member_id, 1).assignment == assignment_of(old)


# covers: D33
def test_before_version_9_a_returning_leader_is_told_its_old_id_leads_so_that_it_follows():
    driver = Driver()
    old, _ = driver.form_group("i", None)
    reply = driver.join(instance_id="i", supports_skip_assignment=False)
    assert (reply.leader, reply.members, reply.skip_assignment) == (old, [], False)
    assert reply.generation == 1


# covers: D33
@pytest.mark.parametrize("supports_skip_assignment", [True, False])
def test_a_returning_static_follower_gets_the_current_generation(supports_skip_assignment):
    driver = Driver()
    leader, _ = driver.form_group(None, "i")
    reply = driver.join(instance_id="i", supports_skip_assignment=supports_skip_assignment)
    assert (reply.generation, reply.leader, reply.members, reply.skip_assignment) == (1, leader, [], False)


# covers: D33
def test_a_changed_subscription_alone_starts_no_rebalance_and_the_group_is_stored_anew():
    driver = Driver()
    old, _ = driver.form_group("i", None)
    reply = driver.join(instance_id="i", protocols=[("range", subscription("u"))], client_id="d", client_host="/h")
    assert driver.state() == "Stable"
    stored = driver.log[-1]
    assert [each.member_id for each in stored.members if each.instance_id == "i"] == [reply.member_id]
    [member] = [each for each in stored.members if each.instance_id == "i"]
    assert (member.subscription, member.assignment) == (subscription("u"), assignment_of(old))
    assert (member.client_id, member.client_host) == ("d", "/h")
    driver.reload()
    assert driver.heartbeat(reply.member_id, 1, "i") is ErrorCode.NONE


# covers: D33
def test_a_change_of_the_selected_protocol_forces_a_rebalance():
    driver = Driver()
    driver.form_group("i", None, protocols=[("range", b""), ("sticky", b"")])
    token = driver.send_join(instance_id="i", protocols=[("sticky", b"")])
    assert driver.is_waiting(token)
    assert driver.state() == "PreparingRebalance"


# covers: D33, F30
def test_the_old_id_is_fenced_with_its_instance_id_and_unknown_without_it():
    driver = Driver()
    old, _ = driver.form_group("i", None)
    driver.join(instance_id="i")
    assert driver.join(old, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.sync(old, 1, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(old, 1, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.commit_code(old, 1, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.leave((old, "i")).members[0].error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.join(old).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync(old, 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit_code(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave(old).members[0].error is ErrorCode.UNKNOWN_MEMBER_ID


# covers: D33, N4
def test_a_parked_join_of_the_old_id_is_fenced():
    driver = Driver()
    waiting = driver.send_join(instance_id="i")
    old = driver.group().static_ids["i"]
    again = driver.send_join(instance_id="i")
    reply = driver.reply(waiting)
    assert (reply.error, reply.member_id) == (ErrorCode.FENCED_INSTANCE_ID, old)
    driver.advance(6000)
    assert driver.reply(again).generation == 1
    assert len(driver.group().members) == 1


# covers: D33, N4
def test_a_parked_sync_of_the_old_id_is_fenced_and_a_completing_group_starts_over():
    driver = Driver()
    tokens = [driver.send_join(), driver.send_join(instance_id="i")]
    driver.advance(6000)
    old = driver.reply(tokens[1]).member_id
    waiting = driver.send_sync(old, 1, instance_id="i")
    token = driver.send_join(instance_id="i")
    assert driver.reply(waiting).error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.state() == "PreparingRebalance"
    assert driver.is_waiting(token)


# covers: D33
def test_in_preparing_the_replacement_takes_part_in_the_rebalance():
    driver = Driver()
    leader, _ = driver.form_group(None, "i", session_timeout_ms=60_000)
    first = driver.send_join(leader)
    second = driver.send_join(instance_id="i")
    assert driver.reply(first).generation == 2
    assert driver.reply(second).generation == 2


# covers: D33, F28
def test_a_refused_append_takes_the_replacement_back():
    driver = Driver()
    old, other = driver.form_group("i", None)
    before = driver.group().members[old].protocols
    driver.hold_appends()
    token = driver.send_join(instance_id="i", protocols=[("range", subscription("u"))], session_timeout_ms=9000)
    assert driver.is_waiting(token)
    driver.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    reply = driver.reply(token)
    assert (reply.error, reply.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    assert set(driver.group().members) == {old, other}
    assert driver.group().leader == old
    assert driver.group().members[old].protocols == before
    assert driver.heartbeat(old, 1, "i") is ErrorCode.NONE
    assert driver.group().waiting_joins == 0
    driver.advance(9999)
    assert old in driver.group().members


# covers: D33, F9
def test_a_late_append_frees_the_joiner_and_keeps_the_new_id():
    driver = Driver()
    old, _ = driver.form_group("i", None)
    driver.hold_appends()
    token = driver.send_join(instance_id="i")
    driver.advance(5000)
    assert driver.reply(token).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    new = driver.group().static_ids["i"]
    assert new != old
    driver.acknowledge()
    assert driver.heartbeat(new, 1, "i") is ErrorCode.NONE
    driver.check_stored_state()


# covers: D33, N4
def test_two_replacements_in_a_row_answer_both_joins_once():
    driver = Driver()
    driver.form_group("i", None)
    driver.hold_appends()
    first = driver.send_join(instance_id="i")
    second = driver.send_join(instance_id="i")
    assert driver.reply(first).error is ErrorCode.FENCED_INSTANCE_ID
    driver.acknowledge()
    assert driver.reply(second).error is ErrorCode.NONE
    assert not driver.unanswered


# covers: D33
def test_a_rebalance_that_starts_before_the_append_is_stored_takes_the_joiner_along():
    driver = Driver()
    _, other = driver.form_group("i", None)
    driver.hold_appends()
    token = driver.send_join(instance_id="i")
    driver.send_join(other, protocols=[("range", subscription("u"))])
    reply = driver.reply(token)
    assert (reply.error, reply.generation, reply.skip_assignment) == (ErrorCode.NONE, 2, False)
    driver.acknowledge()
    assert driver.state() == "CompletingRebalance"


# covers: D33
def test_a_static_member_may_also_rejoin_under_its_current_id():
    driver = Driver()
    [member_id] = driver.form_group("i")
    reply = driver.join(member_id, instance_id="i")
    assert (reply.error, reply.member_id, reply.generation) == (ErrorCode.NONE, member_id, 2)
    assert driver.join(member_id, instance_id="j").error is ErrorCode.UNKNOWN_MEMBER_ID


# covers: D33, D30
def test_the_session_of_the_replacement_runs_under_the_new_id():
    driver = Driver()
    old, other = driver.form_group("i", None, session_timeout_ms=60_000)
    new = driver.join(instance_id="i", session_timeout_ms=6000).member_id
    assert not any(key[3] == old for key in driver.timers)
    driver.advance(6000)
    assert set(driver.group().members) == {other}
    assert new not in driver.group().members


# covers: D33, F28
def test_an_append_that_is_refused_after_a_rebalance_has_begun_takes_nothing_back():
    driver = Driver()
    old, other = driver.form_group("i", None)
    driver.hold_appends()
    driver.send_join(instance_id="i")
    new = driver.group().static_ids["i"]
    token = driver.send_join(other, protocols=[("range", subscription("u"))])
    assert driver.reply(token).generation == 2
    driver.refuse()
    assert set(driver.group().members) == {new, other}
    assert driver.heartbeat(new, 2, "i") is ErrorCode.NONE
    assert driver.heartbeat(old, 2, "i") is ErrorCode.FENCED_INSTANCE_ID
