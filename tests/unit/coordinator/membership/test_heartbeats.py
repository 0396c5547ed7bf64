"""Heartbeats, session expiry, and the timer of brand-new members."""

import pytest

from seamark.coordinator import FetchOffsets
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver


# covers: D29
def test_a_missing_or_empty_group_knows_no_member():
    driver = Driver()
    assert driver.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    [member_id] = driver.form_group(None)
    driver.leave(member_id)
    assert driver.heartbeat(member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID


# covers: D29
def test_the_member_is_checked_before_the_generation():
    driver = Driver()
    [member_id] = driver.form_group("i")
    assert driver.heartbeat("nobody", 9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("old", 9, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat("old", 9, "j") is ErrorCode.UNKNOWN_MEMBER_ID
    for wrong in (0, 2, -1):
        assert driver.heartbeat(member_id, wrong) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat(member_id, 1, "i") is ErrorCode.NONE


# covers: D29, A28
def test_the_answer_follows_the_state():
    driver = Driver()
    tokens = [driver.send_join(), driver.send_join()]
    driver.advance(6000)
    first, second = (driver.reply(token).member_id for token in tokens)
    assert driver.heartbeat(first, 1) is ErrorCode.NONE
    driver.send_sync(first, 1, {})
    assert driver.heartbeat(first, 1) is ErrorCode.NONE
    driver.send_join(first)
    assert driver.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS


# covers: D29
@pytest.mark.parametrize("group_id", ["", None])
def test_a_group_id_is_required(group_id):
    assert Driver().heartbeat("m", 1, group_id=group_id) is ErrorCode.INVALID_GROUP_ID


# covers: D29
def test_a_loading_coordinator_answers_none_and_a_foreign_one_not_coordinator():
    driver = Driver(is_loaded=False)
    assert driver.heartbeat("m", 1) is ErrorCode.NOT_COORDINATOR
    driver.shard.begin_load()
    assert driver.heartbeat("m", 1) is ErrorCode.NONE


# covers: D30
def test_a_member_that_sends_nothing_for_its_session_timeout_is_removed_and_the_group_rebalances():
    driver = Driver()
    first, second = driver.form_group(None, None, session_timeout_ms=10_000)
    driver.advance(5000)
    assert driver.heartbeat(first, 1) is ErrorCode.NONE
    driver.advance(4999)
    assert second in driver.group().members
    driver.advance(1)
    assert list(driver.group().members) == [first]
    assert driver.state() == "PreparingRebalance"
    assert ("member_expired", "g") in driver.events
    assert driver.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID


# covers: D30, F27
def test_accepted_commits_restart_the_session_and_refused_commits_or_fetches_do_not():
    driver = Driver()
    first, second = driver.form_group(None, None)
    driver.advance(6000)
    assert driver.commit_code(first, 1) is ErrorCode.NONE
    assert driver.commit_code(second, 99) is ErrorCode.ILLEGAL_GENERATION
    driver.ask(FetchOffsets("g"))
    driver.advance(4000)
    assert list(driver.group().members) == [first]


# covers: D30
def test_expiry_in_completing_starts_a_new_rebalance():
    driver = Driver()
    tokens = [driver.send_join(session_timeout_ms=each) for each in (20_000, 7000)]
    driver.advance(6000)
    first, second = (driver.reply(token).member_id for token in tokens)
    waiting = driver.send_sync(first, 1)
    driver.leave(second)
    assert not driver.is_waiting(waiting)
    assert driver.state() == "PreparingRebalance"


# covers: D30, D19
def test_expiry_in_preparing_lets_the_others_go_on():
    driver = Driver()
    first, second = driver.form_group(None, None, session_timeout_ms=10_000)
    token = driver.send_join(first)
    driver.advance(10_000)
    assert driver.reply(token).generation == 2
    assert second not in driver.group().members


# covers: D30
def test_a_member_parked_in_join_or_sync_does_not_expire_and_has_a_full_session_afterwards():
    driver = Driver()
    first, second = driver.form_group(None, None, session_timeout_ms=6000)
    token = driver.send_join(first, session_timeout_ms=6000)
    for _ in range(4):
        driver.advance(5000)
        assert driver.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert first in driver.group().members
    driver.send_join(second, session_timeout_ms=6000)
    assert driver.reply(token).generation == 2
    waiting = driver.send_sync(second, 2)
    for _ in range(4):
        driver.advance(5000)
        driver.heartbeat(first, 2)
    assert driver.is_waiting(waiting)
    driver.send_sync(first, 2, {})
    driver.advance(5999)
    assert second in driver.group().members
    driver.advance(1)
    assert second not in driver.group().members


# covers: D30, D20
def test_heartbeats_during_preparing_prevent_expiry_but_not_removal_for_not_rejoining():
    driver = Driver()
    first, second = driver.form_group(None, None, session_timeout_ms=6000)
    token = driver.send_join(first, session_timeout_ms=6000)
    for _ in range(5):
        driver.advance(5000)
        assert driver.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.is_waiting(token)
    driver.advance(5000)
    assert driver.reply(token).generation == 2
    assert list(driver.group().members) == [first]


# covers: D31, D30
def test_a_brand_new_member_waits_in_join_for_five_minutes_at_most():
    driver = Driver()
    first, second = driver.form_group(None, None, rebalance_timeout_ms=400_000, session_timeout_ms=10_000)
    token = driver.send_join(rebalance_timeout_ms=400_000, session_timeout_ms=6000)
    while driver.now_ms < 3000 + 3000 + 299_000:
        driver.advance(1000)
        for member_id in (first, second):
            assert driver.heartbeat(member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.is_waiting(token)
    driver.advance(1000)
    reply = driver.reply(token)
    assert (reply.error, reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert set(driver.group().members) == {first, second}


# covers: D31
def test_the_five_minutes_end_with_the_join_and_the_session_timeout_counts_again():
    driver = Driver()
    token = driver.send_join(session_timeout_ms=6000)
    driver.advance(3000)
    member_id = driver.reply(token).member_id
    driver.send_sync(member_id, 1, {})
    driver.advance(6000)
    assert driver.state() == "Empty"


# covers: D30
def test_session_timers_that_fire_early_or_for_nobody_do_no_harm():
    driver = Driver()
    [member_id] = driver.form_group(None)
    key = (7, "session", "g", member_id)
    driver.carry_out(driver.shard.fire(key, driver.now_ms + 1))
    assert driver.timers[key] == 13_000
    for stray in ((7, "session", "g", "nobody"), (7, "session", "nogroup", "m"), (7, "join", "g", "")):
        effects = driver.shard.fire(stray, driver.now_ms)
        assert not effects.replies
        assert not effects.timers
    assert driver.state() == "Stable"


# covers: D12, D30
def test_a_pending_timer_that_fires_early_is_armed_again():
    driver = Driver()
    member_id = driver.join(require_known_member_id=True).member_id
    key = (7, "session", "g", member_id)
    driver.carry_out(driver.shard.fire(key, 9999))
    assert driver.timers[key] == 10_000
    assert member_id in driver.group().pending


# covers: D30
def test_a_clock_that_steps_back_expires_nobody_early():
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.now_ms -= 2000
    assert driver.heartbeat(member_id, 1) is ErrorCode.NONE
    driver.advance(9999)
    assert driver.state() == "Stable"
    driver.advance(1)
    assert driver.state() == "Empty"
