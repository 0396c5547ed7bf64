"""The join phase: initial delay, completion, elections, the next generation."""

import pytest

from seamark.coordinator import Settings
from seamark.coordinator.states import State
from seamark.coordinator.storing.records import GroupStored
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver, assignment_of, subscription


# covers: D14, A28
def test_a_rebalance_cancels_waiting_syncs_and_blanks_their_assignments():
    driver = Driver()
    tokens = [driver.send_join(), driver.send_join()]
    driver.advance(6000)
    _leader, follower = (driver.reply(token).member_id for token in tokens)
    waiting = driver.send_sync(follower, 1)
    assert driver.is_waiting(waiting)
    driver.send_join()
    reply = driver.reply(waiting)
    assert (reply.error, reply.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert driver.state() == "PreparingRebalance"


# covers: D14
def test_assignments_of_the_last_generation_do_not_survive_an_interrupted_one():
    driver = Driver()
    leader, follower = driver.form_group(None, None)
    tokens = {leader: driver.send_join(leader), follower: driver.send_join(follower)}
    assert driver.reply(tokens[leader]).generation == 2
    assert driver.group().members[follower].assignment == assignment_of(follower)
    driver.send_join(follower, protocols=[("range", subscription("u"))])
    assert driver.group().members[follower].assignment == b""


# covers: D15
def test_a_rebalance_cancels_the_pending_sync_expiry():
    driver = Driver()
    driver.send_join(rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    driver.advance(3000)
    assert any(key[1] == "sync" for key in driver.timers)
    driver.send_join(rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    assert not any(key[1] == "sync" for key in driver.timers)
    assert not driver.group().pending_sync


# covers: D16, D18
def test_the_first_join_of_an_empty_group_waits_for_the_configured_delay():
    driver = Driver()
    token = driver.send_join()
    driver.advance(2999)
    assert driver.is_waiting(token)
    driver.advance(1)
    assert driver.reply(token).generation == 1


# covers: D16
def test_a_rebalance_of_a_group_with_members_waits_for_the_rebalance_timeout():
    driver = Driver()
    first, second = driver.form_group(None, None, rebalance_timeout_ms=12_000, session_timeout_ms=60_000)
    token = driver.send_join(first, rebalance_timeout_ms=12_000, session_timeout_ms=60_000)
    driver.advance(11_999)
    assert driver.is_waiting(token)
    driver.advance(1)
    assert driver.reply(token).generation == 2
    assert second not in driver.group().members


# covers: D16, D18
def test_the_initial_delay_can_be_zero():
    driver = Driver(Settings(initial_rebalance_delay_ms=0))
    token = driver.send_join()
    driver.advance(0)
    assert driver.reply(token).generation == 1


# covers: D18
def test_a_join_in_every_window_extends_the_delay_up_to_the_rebalance_timeout():
    driver = Driver()
    driver.send_join(rebalance_timeout_ms=10_000)
    ends = []
    for length in (3000, 3000, 3000, 1000):
        driver.advance(length - 1)
        assert driver.state() == "PreparingRebalance"
        driver.send_join(rebalance_timeout_ms=10_000)
        driver.advance(1)
        ends.append(driver.now_ms)
    assert ends == [3000, 6000, 9000, 10_000]
    assert driver.state() == "CompletingRebalance"
    assert len(driver.group().members) == 5


# covers: D18
def test_the_joiner_that_starts_the_delay_does_not_extend_it_and_neither_does_a_quiet_window():
    driver = Driver()
    driver.send_join()
    driver.advance(1000)
    driver.send_join()
    driver.advance(2000)
    assert driver.state() == "PreparingRebalance"
    driver.advance(2999)
    assert driver.state() == "PreparingRebalance"
    driver.advance(1)
    assert driver.state() == "CompletingRebalance"


# covers: D18
def test_the_delay_never_ends_early_not_even_when_pending_members_expire_or_everyone_leaves():
    driver = Driver(Settings(initial_rebalance_delay_ms=7000))
    token = driver.send_join()
    driver.join(require_known_member_id=True, session_timeout_ms=6000)
    driver.advance(6500)
    assert not driver.group().pending
    assert driver.is_waiting(token)
    driver.leave("c-1")
    assert driver.reply(token).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.state() == "PreparingRebalance"
    driver.advance(500)
    assert driver.state() == "Empty"


# covers: D17, M8
def test_the_log_tells_group_state_generation_partition_and_reason_of_a_rebalance():
    driver = Driver()
    leader, _ = driver.form_group(None, None)
    driver.send_join(leader, reason="because")
    text = driver.lines[-1].text
    assert driver.lines[-1].event == "rebalance_prepared"
    for part in ("group g", "state Stable", "generation 1", "__consumer_offsets-7", "because"):
        assert part in text


# covers: D17
def test_the_delayed_join_is_tried_before_it_is_armed():
    driver = Driver()
    [member_id] = driver.form_group(None)
    reply = driver.join(member_id)
    assert reply.generation == 2
    assert not any(key[1] == "join" for key in driver.timers)


# covers: D19, D10
def test_the_join_ends_as_soon_as_all_members_have_rejoined():
    driver = Driver()
    members = driver.form_group(None, None, None)
    tokens = [driver.send_join(member_id) for member_id in members]
    assert [driver.reply(token).generation for token in tokens] == [2, 2, 2]


# covers: D19
def test_the_rebalance_timeout_is_the_largest_among_the_members():
    driver = Driver()
    driver.send_join(rebalance_timeout_ms=5000)
    driver.send_join(rebalance_timeout_ms=70_000)
    driver.send_join(rebalance_timeout_ms=6000)
    assert driver.group().rebalance_timeout_ms == 70_000


# covers: D20, M8
def test_silent_dynamic_members_are_removed_and_static_ones_kept():
    driver = Driver()
    s1, d1, d2 = driver.form_group("s1", None, None, session_timeout_ms=60_000)
    driver.send_join(d2, session_timeout_ms=60_000, protocols=[("range", subscription("u"))])
    driver.advance(30_000)
    assert set(driver.group().members) == {s1, d2}
    assert ("members_removed", "g") in driver.events
    assert d1 in next(line.text for line in driver.lines if line.event == "members_removed")
    assert not any(key[1] == "session" and key[3] == d1 for key in driver.timers)


# covers: D21, M8
def test_a_dead_group_is_skipped_when_its_join_timer_fires():
    driver = Driver()
    driver.send_join()
    group = driver.group()
    group.state = State.DEAD
    driver.advance(3000)
    assert ("group_dead", "g") in driver.events
    assert group.generation == 0


# covers: D22, D26, M8
def test_when_nobody_rejoined_another_delayed_join_is_armed_until_sessions_expire():
    driver = Driver()
    s1, s2 = driver.form_group("s1", "s2", session_timeout_ms=100_000, rebalance_timeout_ms=20_000)
    driver.send_join(instance_id="x", session_timeout_ms=100_000, rebalance_timeout_ms=20_000)
    driver.leave(("", "x"))
    driver.advance(20_000)
    assert ("nobody_rejoined", "g") in driver.events
    assert driver.state() == "PreparingRebalance"
    assert set(driver.group().members) == {s1, s2}
    assert any(key[1] == "join" for key in driver.timers)
    driver.advance(100_000)
    assert driver.state() == "Empty"


# covers: D22
def test_a_rebalance_timeout_of_zero_does_not_spin():
    driver = Driver()
    [member_id] = driver.form_group("s1", session_timeout_ms=20_000)
    driver.group().members[member_id].rebalance_timeout_ms = 0
    driver.send_join(instance_id="x", rebalance_timeout_ms=0)
    driver.leave(("", "x"))
    driver.advance(10_000)
    assert driver.events.count(("nobody_rejoined", "g")) == 11


# covers: D23
def test_each_generation_is_the_last_plus_one():
    driver = Driver()
    [member_id] = driver.form_group(None)
    generations = []
    for _ in range(3):
        reply = driver.join(member_id)
        generations.append(reply.generation)
        driver.sync(member_id, reply.generation, {member_id: b"x"})
    assert generations == [2, 3, 4]
    driver.leave(member_id)
    assert (driver.group().generation, driver.state()) == (5, "Empty")


# covers: D23
def test_the_generation_after_the_last_32_bit_number_is_not_negative():
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.group().generation = 2**31 - 1
    assert driver.join(member_id).generation == 0


# covers: D24, M8
def test_an_empty_group_is_stored_with_an_empty_assignment():
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.advance(1000)
    driver.leave(member_id)
    record = driver.log[-1]
    assert record == GroupStored("g", "consumer", 2, None, None, 4000, ())
    assert ("group_empty", "g") in driver.events


# covers: D24, M8
@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT])
def test_a_failed_write_of_an_empty_group_is_only_a_warning(code):
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.hold_appends()
    assert driver.leave(member_id).members[0].error is ErrorCode.NONE
    driver.refuse(code)
    assert driver.lines[-1].level == "warning"
    assert "failed to write empty metadata" in driver.lines[-1].text
    assert driver.state() == "Empty"


# covers: D24
def test_after_a_crash_the_older_generation_returns_and_times_out():
    driver = Driver()
    [member_id] = driver.form_group(None, session_timeout_ms=10_000)
    driver.hold_appends()
    driver.leave(member_id)
    driver.refuse()
    driver.is_holding = False
    driver.reload()
    assert (driver.state(), driver.group().generation, list(driver.group().members)) == ("Stable", 1, [member_id])
    driver.advance(10_000)
    assert driver.state() == "Empty"


# covers: D25, A25, A27
def test_on_completion_the_leader_gets_all_members_and_the_others_none():
    driver = Driver()
    tokens = [driver.send_join() for _ in range(3)]
    driver.advance(6000)
    replies = [driver.reply(token) for token in tokens]
    leader = replies[0]
    assert [len(reply.members) for reply in replies] == [3, 0, 0]
    assert {reply.leader for reply in replies} == {leader.member_id}
    assert all(not reply.skip_assignment and reply.error is ErrorCode.NONE for reply in replies)
    assert all((reply.protocol_type, reply.protocol_name) == ("consumer", "range") for reply in replies)
    assert leader.members[1] == (replies[1].member_id, None, subscription("t"))
    group = driver.group()
    assert group.pending_sync == set(group.members)
    assert not any(member.is_new for member in group.members.values())
    assert [key[1] for key in driver.timers].count("sync") == 1
    sessions = {key[3]: deadline for key, deadline in driver.timers.items() if key[1] == "session"}
    assert set(sessions.values()) == {driver.now_ms + 10_000}


# covers: D26
def test_the_first_joiner_leads_and_a_silent_leader_is_replaced_by_a_rejoined_member():
    driver = Driver()
    s1, s2, s3 = driver.form_group("s1", "s2", "s3", session_timeout_ms=60_000)
    assert driver.group().leader == s1
    token = driver.send_join(s3, instance_id="s3", session_timeout_ms=60_000, protocols=[("range", subscription("u"))])
    driver.advance(30_000)
    reply = driver.reply(token)
    assert (reply.leader, len(reply.members)) == (s3, 3)
    assert set(driver.group().members) == {s1, s2, s3}


# covers: D26
def test_the_leader_that_rejoined_stays_leader():
    driver = Driver()
    leader, follower = driver.form_group(None, None)
    tokens = [driver.send_join(leader), driver.send_join(follower)]
    assert {driver.reply(token).leader for token in tokens} == {leader}


# covers: D26
def test_the_protocol_is_voted_for_among_those_that_all_support():
    driver = Driver()
    driver.send_join(protocols=[("a", b""), ("b", b""), ("c", b"")])
    driver.send_join(protocols=[("b", b""), ("a", b""), ("c", b"")])
    driver.send_join(protocols=[("d", b""), ("c", b""), ("b", b"")])
    driver.advance(9000)
    # Only b and c are common; the votes are b, b, c.
    assert driver.group().protocol == "b"


# covers: N4, D10
def test_when_timer_and_last_joiner_race_there_is_one_completion():
    driver = Driver()
    first, second = driver.form_group(None, None, session_timeout_ms=60_000)
    driver.send_join(first, session_timeout_ms=60_000)
    [key] = [key for key in driver.timers if key[1] == "join"]
    driver.now_ms += 30_000
    token = driver.send_join(second, session_timeout_ms=60_000)
    assert driver.reply(token).generation == 2
    driver.carry_out(driver.shard.fire(key, driver.now_ms))
    assert driver.group().generation == 2


def test_a_join_timer_that_fires_early_waits_for_its_deadline():
    driver = Driver()
    token = driver.send_join()
    [key] = [key for key in driver.timers if key[1] == "join"]
    driver.carry_out(driver.shard.fire(key, 100))
    assert driver.is_waiting(token)
    assert driver.timers[key] == 3000
