"""Counters, gauges and log lines."""

from seamark.coordinator import ForgetTopics, Settings
from tests.support.coordinator_driver import Driver


# covers: M6
def test_gauges_count_groups_by_state_and_offsets():
    driver = Driver(Settings(initial_rebalance_delay_ms=0))
    driver.commit({("t", 0): 1, ("t", 1): 1}, group_id="simple")
    driver.form_group(None, group_id="stable")
    driver.send_join(group_id="preparing")
    assert driver.shard.gauges() == {
        "NumOffsets": 2,
        "NumGroups": 3,
        "NumGroupsPreparingRebalance": 1,
        "NumGroupsCompletingRebalance": 0,
        "NumGroupsStable": 1,
        "NumGroupsDead": 0,
        "NumGroupsEmpty": 1,
    }
    driver.advance(0)
    assert driver.shard.gauges()["NumGroupsCompletingRebalance"] == 1


# covers: M7
def test_counters_count_what_is_stored():
    driver = Driver(Settings(retention_minutes=1, retention_check_interval_ms=60_000))
    [member_id] = driver.form_group(None)
    driver.commit({("t", 0): 1, ("t", 1): 1}, member_id, 1)
    driver.commit({("u", 0): 1, ("nope", 0): 1}, group_id="h")
    driver.ask(ForgetTopics(["t"]))
    driver.hold_appends()
    driver.send_commit({("u", 0): 2}, group_id="h")
    driver.refuse()
    driver.is_holding = False
    driver.advance(120_000)
    assert driver.shard.counters() == {
        "offset-commit-count": 3,
        "offset-expiration-count": 1,
        "offset-deletion-count": 2,
        "group-completed-rebalance-count": 1,
        "refused-append-count": 1,
    }


# covers: M8
def test_the_life_of_a_group_can_be_read_from_its_log_lines():
    driver = Driver()
    first, second = driver.form_group(None, None)
    driver.leave(second)
    driver.advance(200_000)
    events = [event for event, group_id in driver.events if group_id == "g"]
    assert events[:3] == ["rebalance_prepared", "group_stabilized", "assignment_received"]
    assert "member_left" in events
    assert events[-1] == "group_empty"
    stabilized = next(line for line in driver.lines if line.event == "group_stabilized")
    assert stabilized.text == "stabilized group g generation 1 with 2 members"
    assert all(line.level in ("info", "warning", "error") for line in driver.lines)
    assert first not in driver.group().members
