"""The machine's clock is set to another time, as by NTP or an operator: no session, join or commit notices."""

from __future__ import annotations

import pytest

from seamark.coordinator.commands import DescribeGroups, Heartbeat
from seamark.wire.protocol.error_codes import ErrorCode
from tests.unit.broker.groups.group_harness import World, codes

HOUR = 3600.0
DAY = 24 * HOUR
STEPS = [-DAY, -HOUR, -2.0, 2.0, HOUR, 365 * DAY]


@pytest.fixture
def world() -> World:
    made = World().with_offsets_topic()
    made.create_topic("t")
    return made


def state_of(world: World, group: str = "g") -> tuple[str, int]:
    described = world.ask(DescribeGroups([group])).reply.groups[0]
    return described.state, len(described.members)


def beat(world: World, member_id: str, group: str = "g") -> ErrorCode:
    code: ErrorCode = world.ask(Heartbeat(group, member_id, 1)).reply.error
    return code


@pytest.mark.parametrize("step", STEPS)
def test_a_member_that_sends_heartbeats_stays(world, step):
    # Another one's session ends in between, and with it the runtime looks at the clock.
    world.form_group("silent")
    world.advance(5)
    member_id = world.form_group("g")
    world.clock.step(step)
    for _ in range(10):
        world.advance(3)
        assert beat(world, member_id) is ErrorCode.NONE
    assert state_of(world) == ("Stable", 1)


@pytest.mark.parametrize("step", STEPS)
def test_a_silent_member_goes_when_its_session_is_over_and_not_before(world, step):
    world.form_group("g")
    world.advance(4)
    world.clock.step(step)
    world.advance(5)
    assert state_of(world) == ("Stable", 1)
    world.advance(2)
    assert state_of(world)[1] == 0


@pytest.mark.parametrize("step", STEPS)
def test_a_rebalance_waits_for_its_members_as_long_as_they_were_promised(world, step):
    member_id = world.form_group("g")
    world.join("g", client_id="second")
    for _ in range(4):
        world.advance(5)
        beat(world, member_id)
    world.clock.step(step)
    for _ in range(3):
        world.advance(3)
        assert beat(world, member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    assert state_of(world) == ("PreparingRebalance", 2)
    world.advance(3)
    assert state_of(world)[1] == 1


@pytest.mark.parametrize("step", STEPS)
def test_an_id_that_was_handed_out_stays_good_as_long_as_a_session(world, step):
    member_id = world.join("g", require_known_member_id=True).reply.member_id
    world.advance(4)
    world.clock.step(step)
    world.advance(4)
    assert world.join("g", member_id).reply.error is ErrorCode.NONE


@pytest.mark.parametrize("step", [HOUR, 365 * DAY])
def test_commits_under_way_keep_their_time(world, step, monkeypatch):
    partition = world.partition("g")
    monkeypatch.setattr(type(partition), "when_acknowledged", lambda *_: None)
    asked = world.commit("g", 5)
    world.settle()
    world.clock.step(step)
    world.advance(4)
    assert asked.replies == []
    world.advance(2)
    assert codes(asked) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def commit_time(world: World, offset: int) -> int:
    world.commit("g", offset)
    world.settle()
    shard = world.groups[0].coordinator.shard(world.groups[0].partition_for("g"))
    stored: int = shard.groups["g"].offsets["t", 0].commit_ms
    return stored


def test_commits_are_stamped_with_the_new_time_but_never_with_an_earlier_one(world):
    first = commit_time(world, 1)
    world.clock.step(HOUR)
    world.advance(2)
    second = commit_time(world, 2)
    assert second == first + 3_602_000
    world.clock.step(-2 * HOUR)
    world.advance(2)
    assert commit_time(world, 3) == second + 2_000


def test_a_clock_set_back_expires_no_offsets_and_keeps_them_no_longer(world):
    world.commit("g", 5)
    world.settle()
    world.clock.step(-DAY)
    world.advance(6.9 * DAY)
    assert world.committed("g") == 5
    world.advance(0.2 * DAY)
    assert world.committed("g") == -1
