"""LeaveGroup: immediate removal, results per member, administrative removal."""

import pytest

from seamark.coordinator import DeleteGroups, Settings
from seamark.coordinator.replies import LeaveReply, LeftMember
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver


# covers: D32, A29
def test_a_member_that_leaves_is_gone_at_once_and_the_group_rebalances():
    driver = Driver()
    first, second = driver.form_group(None, None)
    reply = driver.leave(first)
    assert reply == LeaveReply(ErrorCode.NONE, [LeftMember(first, None, ErrorCode.NONE)])
    assert list(driver.group().members) == [second]
    assert driver.state() == "PreparingRebalance"
    assert driver.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert not any(key[3] == first for key in driver.timers)


# covers: D32
def test_a_missing_group_gives_unknown_member_to_each():
    reply = Driver().leave("a", ("", "i"))
    assert reply.error is ErrorCode.NONE
    assert [each.error for each in reply.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


# covers: D32
def test_before_version_3_the_members_error_is_the_answer():
    driver = Driver()
    assert driver.leave("a").top_level_error is ErrorCode.UNKNOWN_MEMBER_ID
    [member_id] = driver.form_group(None)
    assert driver.leave(member_id).top_level_error is ErrorCode.NONE
    assert LeaveReply(ErrorCode.NOT_COORDINATOR).top_level_error is ErrorCode.NOT_COORDINATOR


# covers: D32
def test_errors_are_per_member_and_the_valid_ones_leave_together():
    driver = Driver()
    first, second, static = driver.form_group(None, None, "i")
    reply = driver.leave(first, "nobody", ("old", "i"), ("", "j"), (second, None, "done"), ("", None))
    assert [each.error for each in reply.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(driver.group().members) == [static]
    assert driver.events.count(("rebalance_prepared", "g")) == 2
    texts = [line.text for line in driver.lines if line.event == "member_left"]
    assert any(f"reason: {first}, {second} left" in line.text for line in driver.lines)
    assert texts[0].endswith("client reason: not provided")
    assert texts[1].endswith("client reason: done")


# covers: D32
def test_a_blank_id_with_an_instance_id_removes_the_static_member():
    driver = Driver()
    static, other = driver.form_group("i", None)
    reply = driver.leave(("", "i"))
    assert reply.members == [LeftMember("", "i", ErrorCode.NONE)]
    assert driver.lines[-1].text.endswith("reason: i left")
    assert list(driver.group().members) == [other]
    assert driver.heartbeat(static, 1, "i") is ErrorCode.UNKNOWN_MEMBER_ID


# covers: D32, D12
def test_a_pending_member_can_leave_and_no_longer_holds_up_the_join():
    driver = Driver()
    [member_id] = driver.form_group(None)
    pending = driver.join(require_known_member_id=True).member_id
    token = driver.send_join(member_id)
    assert driver.is_waiting(token)
    assert driver.leave(pending).members[0].error is ErrorCode.NONE
    assert driver.reply(token).generation == 2
    assert not any(key[3] == pending for key in driver.timers)


# covers: D32
def test_a_pending_member_that_leaves_an_empty_group_starts_no_rebalance():
    driver = Driver()
    pending = driver.join(require_known_member_id=True).member_id
    driver.leave(pending)
    assert not driver.has_group(), "it was only made for that id"


# covers: D32, N4
def test_what_the_leaving_member_waits_for_is_answered():
    driver = Driver(Settings(initial_rebalance_delay_ms=0))
    joining = driver.send_join()
    driver.leave("c-1")
    assert driver.reply(joining).error is ErrorCode.UNKNOWN_MEMBER_ID
    driver = Driver()
    tokens = [driver.send_join(), driver.send_join()]
    driver.advance(6000)
    follower = driver.reply(tokens[1]).member_id
    waiting = driver.send_sync(follower, 1)
    driver.leave(follower)
    assert driver.reply(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID


# covers: D32, D34
def test_the_last_member_leaves_an_empty_group_behind_whose_reply_does_not_wait_for_the_log():
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.hold_appends()
    assert driver.leave(member_id).members[0].error is ErrorCode.NONE
    assert driver.state() == "Empty"
    assert len(driver.waiting) == 1


# covers: D32
def test_leaving_a_group_that_is_being_removed_is_answered_at_the_top():
    driver = Driver()
    driver.commit_code()
    driver.hold_appends()
    driver.send(DeleteGroups(["g"]))
    reply = driver.leave("m")
    assert (reply.error, reply.members) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


# covers: D32
@pytest.mark.parametrize("group_id", ["", None])
def test_a_group_id_is_required(group_id):
    assert Driver().leave("m", group_id=group_id).error is ErrorCode.INVALID_GROUP_ID


# covers: D32
def test_loading_and_foreign_partitions_answer_at_the_top():
    driver = Driver(is_loaded=False)
    assert driver.leave("m").error is ErrorCode.NOT_COORDINATOR
    driver.shard.begin_load()
    assert driver.leave("m").error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
