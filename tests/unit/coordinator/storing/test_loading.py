"""Loading and unloading a shard; replay and compaction."""

import pytest

from seamark.coordinator import Settings, Shard, Status
from seamark.coordinator.storing.records import GroupRemoved, GroupStored, OffsetCommitted, OffsetRemoved, StoredMember
from seamark.errors import UsageError
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver, compact, replayed, subscription


def committed(group_id: str, partition: int, offset: int) -> OffsetCommitted:
    return OffsetCommitted(group_id, "t", partition, offset, -1, "", 0)


# covers: F13, F15
def test_a_load_brings_back_offsets_generations_members_and_assignments():
    driver = Driver()
    members = driver.form_group(None, "i")
    driver.commit({("t", 0): 5}, members[0], 1)
    driver.commit({("t", 1): 6}, group_id="simple")
    before = driver.group().stored
    driver.reload()
    group = driver.group()
    assert (driver.state(), group.generation, group.leader, group.protocol) == ("Stable", 1, members[0], "range")
    assert group.stored == before
    assert group.static_ids == {"i": members[1]}
    assert driver.fetch_all() == {("t", 0): 5}
    assert (driver.state("simple"), driver.fetch_all("simple")) == ("Empty", {("t", 1): 6})
    assert driver.sync(members[1], 1, instance_id="i").assignment.endswith(members[1].encode())


# covers: F15, F7
def test_the_last_value_of_a_key_wins_and_an_empty_value_deletes_the_key():
    driver = Driver(is_loaded=False)
    records = [
        committed("g", 0, 100),
        committed("g", 0, 150),
        committed("g", 1, 7),
        committed("g", 0, 120),
        OffsetRemoved("g", "t", 1),
        committed("h", 0, 1),
        OffsetRemoved("h", "t", 0),
        GroupStored("k", "consumer", 3, None, None, 5),
        GroupRemoved("k"),
        GroupRemoved("never"),
        OffsetRemoved("never", "t", 0),
    ]
    driver.carry_out(driver.shard.load(records, 0))
    assert driver.fetch_all() == {("t", 0): 120}
    assert set(driver.shard.groups) == {"g"}


# covers: F15
def test_groups_with_offsets_but_no_group_record_become_empty_groups():
    driver = Driver(is_loaded=False)
    driver.carry_out(driver.shard.load([committed("g", 0, 1)], 0))
    assert driver.list_groups() == {"g": "Empty"}
    assert driver.group().protocol_type is None


# covers: F7, F15
def test_a_compacted_log_replays_to_the_same_state():
    log = [
        GroupStored("g", "consumer", 1, None, None, 0),
        committed("g", 0, 1),
        GroupRemoved("g"),
        committed("g", 0, 2),
        GroupStored("g", "consumer", 2, None, None, 9),
        committed("g", 1, 2),
        OffsetRemoved("g", "t", 1),
    ]
    assert replayed(compact(log)) == replayed(log)
    assert set(replayed(log)) == {("g",), ("g", "t", 0)}


# covers: F13
def test_loaded_members_have_one_session_timeout_to_show_up():
    driver = Driver()
    first, second = driver.form_group(None, None, session_timeout_ms=10_000)
    driver.reload()
    driver.advance(9000)
    assert driver.heartbeat(first, 1) is ErrorCode.NONE
    driver.advance(1000)
    assert list(driver.group().members) == [first]
    assert second not in driver.group().members


# covers: F13, D7
def test_a_group_over_the_size_limit_rebalances_after_the_load():
    driver = Driver()
    members = driver.form_group(None, None)
    shard = Shard(7, Settings(max_group_size=1), partition_count=driver.topics.get, make_id=str)
    effects = shard.load(driver.log, driver.now_ms)
    assert shard.groups["g"].state.value == "PreparingRebalance"
    assert set(shard.groups["g"].members) == set(members)
    assert any(timer.key[1] == "join" for timer in effects.timers)


# covers: F15, N4
def test_an_unload_answers_every_waiting_request_once_with_not_coordinator_and_stops_all_timers():
    driver = Driver()
    driver.hold_appends()
    joins = [driver.send_join(group_id="a"), driver.send_join(group_id="b")]
    driver.advance(3000)
    sync = driver.send_sync(driver.reply(joins[1]).member_id, 1, group_id="b")
    parked = driver.send_join(group_id="c")
    driver.join(group_id="d", require_known_member_id=True)
    commit = driver.send_commit({("t", 0): 1}, group_id="e")
    fetch = driver.send_stable_fetch(group_id="e")
    delete = driver.send_commit({("t", 0): 1}, group_id="f")
    driver.carry_out(driver.shard.unload(driver.now_ms))
    assert not driver.unanswered
    assert not driver.timers
    for token in (sync, parked, fetch):
        assert driver.reply(token).error is ErrorCode.NOT_COORDINATOR
    for token in (commit, delete):
        assert driver.reply(token).topics == [("t", [(0, ErrorCode.NOT_COORDINATOR)])]
    assert not driver.shard.groups
    assert driver.shard.status is Status.UNLOADED


# covers: F15
def test_outcomes_and_timers_of_a_former_life_are_ignored():
    driver = Driver()
    driver.hold_appends()
    driver.send_commit({("t", 0): 1})
    driver.send_join()
    timers = dict(driver.timers)
    driver.carry_out(driver.shard.unload(0))
    assert not driver.shard.stored(0, 0).replies
    for key in timers:
        assert not driver.shard.fire(key, 10**9).replies
    driver.waiting.clear()
    driver.carry_out(driver.shard.load([], 0))
    driver.send_commit({("t", 0): 2})
    assert driver.waiting[0].ticket == 1
    for effects in (driver.shard.stored(0, 0), driver.shard.failed(0, ErrorCode.KAFKA_STORAGE_ERROR, 0)):
        assert not effects.replies
    driver.acknowledge()
    assert driver.fetch().offset == 2


# covers: F15
def test_a_commit_that_timed_out_is_not_answered_again_at_the_unload():
    driver = Driver()
    driver.hold_appends()
    driver.send_commit({("t", 0): 1})
    driver.advance(5000)
    driver.carry_out(driver.shard.unload(driver.now_ms))
    assert not driver.unanswered


def test_loading_in_the_wrong_order_is_refused_in_words():
    driver = Driver()
    with pytest.raises(UsageError, match="only an unloaded one can load"):
        driver.shard.begin_load()
    with pytest.raises(UsageError, match="only a loading one replays"):
        driver.shard.replay([])
    with pytest.raises(UsageError, match="no load is under way"):
        driver.shard.finish_load(0)
    driver.shard.unload(0)
    driver.shard.begin_load()
    driver.shard.unload(0)
    assert driver.shard.status is Status.UNLOADED


# covers: F15
def test_strange_group_records_do_not_stop_a_load():
    def member(member_id, instance_id=None, timeout_ms=-1):
        return StoredMember(member_id, instance_id, "c", "/h", timeout_ms, 9000, subscription("t"), b"")

    driver = Driver(is_loaded=False)
    records = [
        GroupStored("twice", "consumer", 1, "range", "a", 0, (member("a"), member("a"))),
        GroupStored("same-instance", "consumer", 1, "range", "a", 0, (member("a", "i"), member("b", "i"))),
        GroupStored("no-protocol", "", 1, None, "gone", 0, (member("a"),)),
        GroupStored("garbage", "consumer", 1, "range", "a", 0, (member("a")._replace(subscription=b"\xff"),)),
    ]
    driver.carry_out(driver.shard.load(records, 0))
    assert driver.group("twice").rebalance_timeout_ms == 9000
    assert driver.group("no-protocol").leader == "a"
    assert driver.group("garbage").is_subscribed_to("anything")
    driver.advance(9000)
    assert set(driver.list_groups().values()) == {"Empty"}
