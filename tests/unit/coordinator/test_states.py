"""The state table: names, moves, and that every state answers every request."""

import pytest

from seamark.coordinator.membership.groups import Group
from seamark.coordinator.states import (
    COMMIT_ANSWERS,
    DELETE_ANSWERS,
    HEARTBEAT_ANSWERS,
    PREDECESSORS,
    SYNC_ANSWERS,
    IllegalMove,
    State,
)
from tests.support.coordinator_driver import Driver

ALLOWED = {
    ("Empty", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("CompletingRebalance", "Stable"),
    ("Stable", "PreparingRebalance"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("PreparingRebalance", "Empty"),
}


# covers: D1
def test_there_are_five_states_with_their_wire_names():
    assert [state.value for state in State] == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]


# covers: D34
@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_exactly_the_moves_of_the_table_are_possible(before, after):
    group = Group("g")
    group.state = before
    if after is State.DEAD or (before.value, after.value) in ALLOWED:
        group.move_to(after, 5)
        assert (group.state, group.state_ms) == (after, 5)
    else:
        with pytest.raises(IllegalMove, match=f"from {before.value} to {after.value}"):
            group.move_to(after, 5)
        assert group.state is before


# covers: D34
def test_every_state_has_an_entry_in_every_table():
    for table in (PREDECESSORS, HEARTBEAT_ANSWERS, SYNC_ANSWERS, COMMIT_ANSWERS, DELETE_ANSWERS):
        assert set(table) == set(State)


# covers: D34
def test_a_group_runs_through_all_its_states():
    driver = Driver()
    token = driver.send_join()
    seen = [driver.state()]
    group = driver.group()
    driver.advance(3000)
    seen.append(driver.state())
    member_id = driver.reply(token).member_id
    driver.sync(member_id, 1, {member_id: b"a"})
    seen.append(driver.state())
    driver.send_join(member_id)
    seen.append(driver.state())
    driver.leave(member_id)
    seen.append(driver.state())
    driver.shard.unload(driver.now_ms)
    seen.append(group.state.value)
    assert seen == ["PreparingRebalance", "CompletingRebalance", "Stable", "CompletingRebalance", "Empty", "Dead"]
