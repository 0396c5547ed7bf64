"""Expiration of offsets and of groups nobody uses."""

import pytest

from seamark.coordinator import Settings
from seamark.coordinator.storing.records import GroupRemoved, GroupStored, OffsetCommitted, OffsetRemoved
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver, subscription

MINUTE = 60_000


def driver_with(check_ms: int = 1000, **fields) -> Driver:
    return Driver(Settings(retention_minutes=1, retention_check_interval_ms=check_ms, **fields))


# covers: F29
def test_retention_counts_from_when_the_group_became_empty_and_a_later_commit_does_not_extend_it():
    driver = driver_with(initial_rebalance_delay_ms=0)
    [member_id] = driver.form_group(None, session_timeout_ms=60_000)
    driver.commit({("t", 0): 1}, member_id, 1)
    driver.advance(30_000)
    driver.leave(member_id)
    driver.advance(30_000)
    assert driver.commit({("t", 1): 1}) == {("t", 1): ErrorCode.NONE}
    driver.advance(29_000)
    assert set(driver.fetch_all()) == {("t", 0), ("t", 1)}
    driver.advance(1000)
    assert driver.now_ms == 90_000
    assert driver.fetch_all() == {}
    assert driver.log[-3:] == [OffsetRemoved("g", "t", 0), OffsetRemoved("g", "t", 1), GroupRemoved("g")]
    assert not driver.has_group()
    driver.reload()
    assert driver.list_groups() == {}


# covers: F29
def test_offsets_of_simple_consumers_expire_by_their_own_commit():
    driver = driver_with()
    driver.commit({("t", 0): 1})
    driver.advance(30_000)
    driver.commit({("t", 1): 1})
    driver.advance(29_999)
    assert set(driver.fetch_all()) == {("t", 0), ("t", 1)}
    driver.advance(1)
    assert set(driver.fetch_all()) == {("t", 1)}
    assert driver.has_group()
    driver.advance(30_000)
    assert not driver.has_group()


# covers: F29
def test_a_commit_renews_the_offset_of_a_simple_consumer():
    driver = driver_with()
    driver.commit_code()
    driver.advance(59_000)
    driver.commit_code(offset=2)
    driver.advance(30_000)
    assert driver.fetch().offset == 2


# covers: F29
def test_topics_a_stable_group_no_longer_subscribes_to_expire_by_commit_and_others_never():
    driver = driver_with(initial_rebalance_delay_ms=0)
    [member_id] = driver.form_group(None, session_timeout_ms=1_800_000, protocols=[("range", subscription("t"))])
    driver.commit({("t", 0): 1, ("u", 0): 1}, member_id, 1)
    driver.advance(MINUTE)
    assert set(driver.fetch_all()) == {("t", 0)}
    driver.advance(5 * MINUTE)
    assert set(driver.fetch_all()) == {("t", 0)}


# covers: F29
@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect"}, {"protocols": [("range", b"?")]}], ids=["not a consumer", "unreadable"]
)
def test_nothing_expires_in_a_group_with_members_whose_topics_are_not_known(fields):
    driver = driver_with(initial_rebalance_delay_ms=0)
    [member_id] = driver.form_group(None, session_timeout_ms=1_800_000, **fields)
    driver.commit({("u", 0): 1}, member_id, 1)
    driver.advance(5 * MINUTE)
    assert set(driver.fetch_all()) == {("u", 0)}


# covers: F29
def test_nothing_expires_while_the_group_rebalances():
    driver = driver_with(initial_rebalance_delay_ms=0)
    first, second = driver.form_group(None, None, session_timeout_ms=1_800_000, rebalance_timeout_ms=300_000)
    driver.commit({("u", 0): 1}, first, 1)
    driver.send_join(first, session_timeout_ms=1_800_000, rebalance_timeout_ms=300_000)
    driver.advance(4 * MINUTE)
    assert driver.state() == "PreparingRebalance"
    assert set(driver.fetch_all()) == {("u", 0)}
    assert second in driver.group().members


# covers: F29
def test_a_retention_time_sent_with_the_commit_replaces_the_period_and_counts_from_the_commit():
    driver = driver_with()
    driver.commit({("t", 0): 1}, retention_ms=10_000)
    driver.commit({("t", 1): 1}, retention_ms=200_000)
    driver.advance(9999)
    assert set(driver.fetch_all()) == {("t", 0), ("t", 1)}
    driver.advance(1)
    assert set(driver.fetch_all()) == {("t", 1)}
    driver.advance(189_000)
    assert set(driver.fetch_all()) == {("t", 1)}
    driver.advance(1000)
    assert not driver.has_group()


# covers: F29
def test_without_a_stored_state_time_the_commit_counts():
    driver = driver_with()
    driver.carry_out(driver.shard.unload(0))
    records = [
        GroupStored("g", "consumer", 3, None, None, -1),
        OffsetCommitted("g", "t", 0, 1, -1, "", 40_000),
        OffsetCommitted("g", "t", 1, 1, -1, "", 0),
    ]
    driver.carry_out(driver.shard.load(records, 0))
    driver.advance(61_000)
    assert set(driver.fetch_all()) == {("t", 0)}


# covers: F29
def test_an_empty_group_without_offsets_is_dead_at_the_next_check_but_not_while_a_member_is_pending():
    driver = driver_with(check_ms=10_000)
    [member_id] = driver.form_group(None)
    driver.leave(member_id)
    group = driver.group()
    driver.join(require_known_member_id=True, session_timeout_ms=12_000)
    driver.advance(10_000)
    assert driver.has_group()
    driver.advance(10_000)
    assert not driver.has_group()
    assert group.state.value == "Dead"
    assert driver.log[-1] == GroupRemoved("g")


# covers: F29
def test_checks_run_at_their_interval():
    driver = driver_with(check_ms=600_000)
    driver.commit_code()
    driver.advance(599_999)
    assert driver.has_group()
    driver.advance(1)
    assert not driver.has_group()


# covers: F29, F11
def test_an_offset_with_a_commit_on_its_way_is_left_for_the_next_check():
    driver = driver_with()
    driver.commit_code()
    driver.advance(59_500)
    driver.hold_appends()
    driver.send_commit({("t", 0): 2})
    driver.advance(500)
    assert len(driver.waiting) == 1
    driver.acknowledge()
    assert driver.fetch().offset == 2
    assert driver.has_group()


# covers: F29, F28
def test_refused_tombstones_are_tried_again_at_the_next_check():
    driver = driver_with()
    driver.commit_code()
    driver.hold_appends()
    driver.advance(MINUTE)
    driver.refuse()
    assert driver.lines[-1].event == "expiry_not_stored"
    assert driver.list_groups() == {"g": "Empty"}
    driver.advance(1000)
    driver.acknowledge()
    assert not driver.has_group()


# covers: F29
def test_many_tombstones_are_split_into_appends_of_bounded_size():
    driver = driver_with()
    driver.topics["wide"] = 2500
    driver.commit({("wide", each): 1 for each in range(2500)})
    driver.hold_appends()
    driver.advance(MINUTE)
    sizes = []
    while driver.waiting:
        assert len(driver.waiting) == 1
        sizes.append(len(driver.waiting[0].records))
        driver.acknowledge(1)
        driver.advance(0)
    assert sum(sizes) == 2501
    assert max(sizes) <= 1000
    assert not driver.has_group()
    assert driver.shard.counters()["offset-expiration-count"] == 2500


# covers: F29
def test_a_check_finds_nothing_to_do_twice():
    driver = driver_with()
    driver.commit_code()
    driver.hold_appends()
    driver.advance(MINUTE + 5000)
    assert len(driver.waiting) == 1


# covers: F29
def test_a_pipeline_of_groups_expires_independently():
    driver = driver_with()
    driver.commit_code(group_id="old")
    driver.advance(40_000)
    driver.commit_code(group_id="new")
    driver.advance(20_000)
    assert driver.list_groups() == {"new": "Empty"}


# covers: F29
def test_a_check_in_parts_looks_again_at_what_has_changed_since():
    driver = Driver(Settings(sweep_size=10, retention_minutes=1, retention_check_interval_ms=1000))
    driver.topics["wide"] = 100
    driver.commit({("wide", each): 1 for each in range(30)})
    driver.hold_appends()
    driver.advance(MINUTE)
    renewed = driver.send_commit({("wide", 29): 2, ("wide", 50): 5})
    driver.acknowledge()
    driver.is_holding = False
    assert not driver.is_waiting(renewed)
    driver.advance(0)
    assert driver.fetch_all() == {("wide", 29): 2, ("wide", 50): 5}
    assert driver.shard.counters()["offset-expiration-count"] == 29
    driver.reload()


# covers: F29
def test_a_check_that_is_still_under_way_is_not_begun_again():
    driver = Driver(Settings(sweep_size=10, retention_minutes=1, retention_check_interval_ms=1000))
    driver.topics["wide"] = 100
    driver.commit({("wide", each): 1 for each in range(30)})
    driver.hold_appends()
    driver.advance(MINUTE + 4000)
    assert len(driver.waiting) == 1
    driver.is_holding = False
    driver.acknowledge()
    driver.advance(1000)
    assert not driver.has_group()
