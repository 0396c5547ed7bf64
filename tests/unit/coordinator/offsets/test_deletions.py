"""OffsetDelete, DeleteGroups, and the offsets of deleted topics."""

import pytest

from seamark.coordinator import DeleteGroups, DeleteOffsets, ForgetTopics, Settings
from seamark.coordinator.offsets import sweeps
from seamark.coordinator.storing.records import GroupRemoved, OffsetRemoved
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver, codes, subscription

NONE = ErrorCode.NONE


# covers: F29, F15
def test_a_deleted_group_leaves_tombstones_for_its_offsets_and_itself():
    driver = Driver()
    driver.commit({("t", 1): 1, ("t", 0): 2})
    assert driver.delete_groups("g") == {"g": NONE}
    assert driver.log[2:] == [OffsetRemoved("g", "t", 1), OffsetRemoved("g", "t", 0), GroupRemoved("g")]
    assert not driver.has_group()
    assert driver.shard.stored_state() == {}
    driver.reload()
    assert driver.list_groups() == {}


# covers: D34, A39
def test_only_empty_groups_can_be_deleted():
    driver = Driver()
    [member_id] = driver.form_group(None)
    assert driver.delete_groups("g", "missing", None) == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "missing": ErrorCode.GROUP_ID_NOT_FOUND,
        None: ErrorCode.INVALID_GROUP_ID,
    }
    driver.send_join(member_id, protocols=[("range", subscription("u"))])
    assert driver.delete_groups("g") == {"g": ErrorCode.NON_EMPTY_GROUP}
    driver.leave(member_id)
    assert driver.delete_groups("g") == {"g": NONE}


# covers: D3
def test_the_empty_group_id_can_be_deleted():
    driver = Driver()
    driver.commit_code(group_id="")
    assert driver.delete_groups("") == {"": NONE}


# covers: F28
def test_a_group_is_there_until_its_tombstones_are_stored_and_stays_if_they_are_refused():
    driver = Driver()
    driver.commit_code(offset=4)
    driver.hold_appends()
    token = driver.send(DeleteGroups(["g", "missing", "g"]))
    assert driver.fetch().offset == 4
    assert driver.list_groups() == {"g": "Dead"}
    assert driver.delete_groups("g") == {"g": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert driver.delete_offsets({"t": [0]}).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert driver.reply(token).groups == [
        ("g", ErrorCode.NOT_COORDINATOR),
        ("missing", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert driver.list_groups() == {"g": "Empty"}
    assert driver.fetch().offset == 4


# covers: F9
def test_a_deletion_that_is_late_is_answered_and_still_happens():
    driver = Driver()
    driver.commit_code()
    driver.hold_appends()
    token = driver.send(DeleteGroups(["g"]))
    driver.advance(5000)
    assert driver.reply(token).groups == [("g", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    driver.acknowledge()
    assert not driver.has_group()


# covers: F11
def test_commits_still_on_their_way_are_deleted_with_the_group():
    driver = Driver()
    driver.hold_appends()
    driver.send_commit({("t", 0): 1})
    driver.send(DeleteGroups(["g"]))
    assert driver.waiting[1].records == [OffsetRemoved("g", "t", 0), GroupRemoved("g")]
    driver.acknowledge()
    assert driver.shard.stored_state() == {}
    assert not driver.has_group()


# covers: F28
def test_when_commit_and_deletion_are_both_refused_nothing_is_left():
    driver = Driver()
    driver.hold_appends()
    driver.send_commit({("t", 0): 1})
    driver.send(DeleteGroups(["g"]))
    driver.refuse()
    driver.refuse()
    assert not driver.has_group()
    assert not driver.unanswered


# covers: D12
def test_a_pending_member_goes_with_its_deleted_group():
    driver = Driver()
    pending = driver.join(require_known_member_id=True).member_id
    driver.delete_groups("g")
    assert not any(key[1] == "session" for key in driver.timers)
    assert driver.join(pending).error is ErrorCode.UNKNOWN_MEMBER_ID


# covers: F15
def test_a_group_record_without_its_offsets_tombstones_leaves_a_simple_group():
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.commit({("t", 0): 5}, member_id, 1)
    driver.leave(member_id)
    driver.hold_appends()
    driver.send(DeleteGroups(["g"]))
    driver.waiting[0].records[:] = [GroupRemoved("g")]
    driver.acknowledge()
    assert (driver.state(), driver.group().generation, driver.group().protocol_type) == ("Empty", 0, None)
    assert driver.fetch().offset == 5


# covers: A39
def test_offsets_of_topics_a_group_subscribes_to_cannot_be_deleted():
    driver = Driver()
    [member_id] = driver.form_group(None, protocols=[("range", subscription("t"))])
    driver.commit({("t", 0): 1, ("u", 0): 2}, member_id, 1)
    reply = driver.delete_offsets({"t": [0], "u": [0, 1], "nope": [0]})
    assert reply.error is NONE
    assert codes(reply) == {
        ("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("u", 0): NONE,
        ("u", 1): NONE,
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert driver.log[-1] == OffsetRemoved("g", "u", 0)
    assert driver.fetch_all() == {("t", 0): 1}


def test_an_empty_or_simple_group_subscribes_to_nothing():
    driver = Driver()
    driver.commit_code(group_id="simple")
    assert codes(driver.delete_offsets({"t": [0]}, "simple")) == {("t", 0): NONE}
    [member_id] = driver.form_group(None)
    driver.commit({("t", 0): 1}, member_id, 1)
    driver.leave(member_id)
    assert codes(driver.delete_offsets({"t": [0]})) == {("t", 0): NONE}
    assert driver.fetch_all() == {}


def test_a_group_with_unreadable_subscriptions_counts_as_subscribed_to_everything():
    driver = Driver()
    driver.form_group(None, protocols=[("range", b"\x00")])
    assert codes(driver.delete_offsets({"u": [0]})) == {("u", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_a_group_of_another_protocol_type_must_be_empty():
    driver = Driver()
    [member_id] = driver.form_group(None, protocol_type="connect")
    assert driver.delete_offsets({"t": [0]}).error is ErrorCode.NON_EMPTY_GROUP
    driver.leave(member_id)
    assert driver.delete_offsets({"t": [0]}).error is NONE


@pytest.mark.parametrize("group_id", ["", None])
def test_offset_delete_needs_a_group_that_exists(group_id):
    driver = Driver()
    assert driver.delete_offsets({"t": [0]}).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.delete_offsets({"t": [0]}, group_id).error is ErrorCode.INVALID_GROUP_ID


# covers: F11, F28
def test_offset_delete_waits_for_the_log_and_sees_commits_on_their_way():
    driver = Driver()
    driver.hold_appends()
    driver.send_commit({("t", 0): 1})
    token = driver.send(DeleteOffsets("g", [("t", [0, 1])]))
    assert driver.waiting[1].records == [OffsetRemoved("g", "t", 0)]
    driver.acknowledge(1)
    assert driver.fetch().offset == 1
    assert driver.is_waiting(token)
    driver.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert driver.reply(token).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.fetch().offset == 1


# covers: F15
def test_the_offsets_of_a_deleted_topic_are_removed_from_every_group():
    driver = Driver()
    [member_id] = driver.form_group(None)
    driver.commit({("t", 0): 1, ("u", 0): 1}, member_id, 1)
    driver.commit({("t", 1): 1}, group_id="h")
    driver.commit({("u", 1): 1}, group_id="k")
    reply = driver.ask(ForgetTopics(["t"]))
    assert (reply.error, reply.removed) == (NONE, 2)
    assert driver.fetch_all() == {("u", 0): 1}
    assert driver.fetch_all("h") == {}
    assert driver.fetch_all("k") == {("u", 1): 1}
    assert driver.ask(ForgetTopics(["t"])).removed == 0
    driver.reload()


# covers: F28
def test_a_refused_removal_of_topic_offsets_is_reported():
    driver = Driver()
    driver.commit_code()
    driver.hold_appends()
    token = driver.send(ForgetTopics(["t"]))
    driver.refuse()
    assert (driver.reply(token).error, driver.reply(token).removed) == (ErrorCode.NOT_COORDINATOR, 0)


# covers: F15
def test_loading_and_foreign_partitions_refuse_deletions():
    driver = Driver(is_loaded=False)
    assert driver.delete_groups("g", None) == {"g": ErrorCode.NOT_COORDINATOR, None: ErrorCode.INVALID_GROUP_ID}
    assert driver.ask(ForgetTopics(["t"])).error is ErrorCode.NOT_COORDINATOR
    driver.shard.begin_load()
    assert driver.delete_groups("g") == {"g": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert driver.delete_offsets({"t": [0]}).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# covers: N4
def test_an_unload_answers_deletions_under_way():
    driver = Driver()
    driver.commit_code()
    driver.hold_appends()
    token = driver.send(DeleteGroups(["g"]))
    driver.carry_out(driver.shard.unload(0))
    assert driver.reply(token).groups == [("g", ErrorCode.NOT_COORDINATOR)]


def wide_driver(offsets: int = 25) -> Driver:
    """A shard that removes ten offsets at a time, with one group of many offsets."""
    driver = Driver(Settings(sweep_size=10))
    driver.topics["wide"] = 100
    driver.commit({("wide", each): 1 for each in range(offsets)})
    return driver


# covers: F29
def test_a_large_group_is_deleted_in_parts_and_its_own_tombstone_is_the_last():
    driver = wide_driver()
    driver.hold_appends()
    token = driver.send(DeleteGroups(["g"]))
    parts = []
    while driver.waiting:
        assert len(driver.waiting) == 1
        parts.append(driver.waiting[0].records)
        assert driver.is_waiting(token)
        assert driver.commit_code(offset=3) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        driver.acknowledge(1)
        driver.advance(0)
    assert driver.reply(token).groups == [("g", NONE)]
    assert max(map(len, parts)) <= 10
    records = [record for part in parts for record in part]
    assert len(records) == 26
    assert records[-1] == GroupRemoved("g")
    assert driver.shard.stored_state() == {}
    assert driver.shard.counters()["offset-deletion-count"] == 25


# covers: F15
@pytest.mark.parametrize("part", range(4))
def test_a_crash_between_two_parts_leaves_the_group_with_the_offsets_that_are_left(part):
    driver = wide_driver()
    driver.commit_code(group_id="other")
    driver.hold_appends()
    driver.send(DeleteGroups(["g"]))
    for _ in range(part):
        driver.acknowledge(1)
        driver.advance(0)
    removed = sum(type(record) is OffsetRemoved for record in driver.log)
    assert removed < 25
    driver.reload()
    driver.is_holding = False
    assert driver.list_groups() == {"g": "Empty", "other": "Empty"}
    assert len(driver.fetch_all()) == 25 - removed
    token = driver.send(DeleteGroups(["g"]))
    driver.advance(0)
    assert driver.reply(token).groups == [("g", NONE)]
    assert driver.list_groups() == {"other": "Empty"}


# covers: F28
def test_a_refused_part_stops_the_deletion_and_the_groups_that_are_left_live_on():
    driver = wide_driver()
    driver.commit_code(group_id="first")
    driver.hold_appends()
    token = driver.send(DeleteGroups(["first", "g"]))
    driver.acknowledge(1)
    driver.advance(0)
    driver.acknowledge(1)
    driver.advance(0)
    driver.refuse()
    assert driver.reply(token).groups == [("first", NONE), ("g", ErrorCode.NOT_COORDINATOR)]
    driver.is_holding = False
    driver.advance(0)
    assert driver.list_groups() == {"g": "Empty"}
    assert 0 < len(driver.fetch_all()) < 25
    assert driver.commit_code(offset=3) is NONE
    driver.reload()
    assert driver.fetch().offset == 3


# covers: F9
def test_a_late_part_is_answered_and_the_deletion_goes_on_when_it_is_stored():
    driver = wide_driver()
    driver.hold_appends()
    token = driver.send(DeleteGroups(["g"]))
    driver.advance(5000)
    assert driver.reply(token).groups == [("g", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    driver.is_holding = False
    driver.acknowledge()
    driver.advance(0)
    assert not driver.has_group()


# covers: F15
def test_while_the_offsets_of_a_deleted_topic_are_searched_commits_to_a_topic_of_that_name_wait():
    driver = wide_driver()
    driver.commit({("wide", each): 1 for each in range(25)}, group_id="h")
    token = driver.send(ForgetTopics(["wide"]))
    assert driver.commit({("wide", 99): 7, ("t", 0): 1}, group_id="h") == {
        ("wide", 99): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): NONE,
    }
    driver.advance(0)
    assert (driver.reply(token).error, driver.reply(token).removed) == (NONE, 50)
    assert driver.commit({("wide", 99): 7}, group_id="h") == {("wide", 99): NONE}
    assert driver.fetch_all("h") == {("t", 0): 1, ("wide", 99): 7}
    assert driver.fetch_all("g") == {}
    driver.reload()


# covers: F15
def test_a_refused_or_unloaded_search_for_the_offsets_of_a_topic_lets_commits_in_again():
    driver = wide_driver()
    driver.hold_appends()
    token = driver.send(ForgetTopics(["wide"]))
    driver.advance(0)
    driver.refuse()
    assert driver.reply(token).error is ErrorCode.NOT_COORDINATOR
    driver.is_holding = False
    assert driver.commit({("wide", 1): 7}) == {("wide", 1): NONE}
    token = driver.send(ForgetTopics(["wide"]))
    driver.carry_out(driver.shard.unload(driver.now_ms))
    assert driver.reply(token).error is ErrorCode.NOT_COORDINATOR
    driver.carry_out(driver.shard.load(driver.log, driver.now_ms))
    assert driver.commit({("wide", 1): 8}) == {("wide", 1): NONE}


# covers: F29
def test_the_tombstones_of_long_names_are_split_by_their_size():
    driver = Driver()
    group_id = "g" * 30_000
    driver.commit({(topic, each): 1 for topic in ("t", "u") for each in range(4)}, group_id=group_id)
    driver.hold_appends()
    driver.send(DeleteGroups([group_id]))
    assert 1 < len(driver.waiting[0].records) * 30_000 < 400_000


# covers: F29
def test_work_of_one_step_does_not_grow_with_the_offsets_of_the_shard(monkeypatch):
    """The most that one call into the core looks at, for removals of every kind."""
    looked = []
    original = sweeps.Sweep.step

    def step(sweep, now_ms, most):
        original(sweep, now_ms, most)
        looked.append(sweep._looked_at)

    monkeypatch.setattr(sweeps.Sweep, "step", step)
    for command in (DeleteGroups(["g"]), ForgetTopics(["wide"]), None):
        driver = wide_driver(100)
        if command is not None:
            driver.send(command)
        driver.advance(1 if command else 8 * 24 * 3_600_000)
        assert driver.fetch_all() == {}
    assert sum(looked) >= 300
    assert max(looked) <= 10
