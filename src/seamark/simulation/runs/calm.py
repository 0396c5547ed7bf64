"""What must be true when nothing goes wrong any more: every group is whole, and nothing is left over.

Leftovers would be what grows without bound in a broker that lives long: requests nobody answers, timers of members
that are gone, appends that are never settled, groups that nobody uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seamark.coordinator import Settings
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.timers import JOIN_TIMER, SESSION_TIMER, SYNC_TIMER
from seamark.coordinator.states import State
from seamark.simulation.broker.broker import SimulatedBroker
from seamark.simulation.broker.invariants import Invariants
from seamark.simulation.members.clients import Member
from seamark.simulation.world.violations import InvariantViolated


def unsettled(
    broker: SimulatedBroker,
    invariants: Invariants,
    groups: Sequence[str],
    members: Sequence[Member],
    settings: Settings,
    topics: Mapping[str, int],
) -> str | None:
    """Say what is not calm yet, or None."""
    if not broker.is_serving:
        return "the broker does not serve every partition"
    if broker.has_open_appends:
        return "appends are under way"
    for member in members:
        if member.is_running and not member.is_settled and not member.is_turned_away:
            return f"member {member.name} of {member.group_id} has no assignment"
    for group_id in groups:
        running = [member for member in members if member.group_id == group_id and member.is_running]
        reason = unsettled_group(broker, group_id, running, settings.max_group_size)
        if reason is not None:
            return f"group {group_id}: {reason}"
        # Where a power loss took an acknowledged generation, a silent static member cannot know that the generation
        # of the same number is another one; only the next rebalance puts that right.
        if not invariants.ledger(group_id).has_lost_records:
            _check_ownership(group_id, running, topics)
    return None


def unsettled_group(broker: SimulatedBroker, group_id: str, running: Sequence[Member], limit: int) -> str | None:
    """Say in what the coordinator's view of a group and that of its members differ, or None."""
    group = broker.coordinator.shard(broker.coordinator.partition_for(group_id)).groups.get(group_id)
    inside = [member for member in running if not member.is_turned_away]
    if len(inside) < min(limit, len(running)):
        return "members are rejected although the group is not full"
    if not inside:
        return None if group is None or group.state is State.EMPTY else f"it has no members and is {group.state.value}"
    if group is None:
        return "the coordinator does not know it"
    if group.state is not State.STABLE or group.pending:
        return f"it is {group.state.value} with pending members {group.pending}"
    ids = {member.member_id for member in inside}
    if ids != set(group.members):
        return f"it has members {sorted(group.members)}, running are {sorted(ids)}"
    if {member.generation for member in inside} != {group.generation}:
        return f"not all members are in generation {group.generation}"
    return None


def _check_ownership(group_id: str, running: Sequence[Member], topics: Mapping[str, int]) -> None:
    inside = [member for member in running if not member.is_turned_away]
    wanted = {(topic, number) for member in inside for topic in member.topics for number in range(topics[topic])}
    owned = sorted(partition for member in inside for partition in member.owned)
    if owned != sorted(wanted):
        raise InvariantViolated(
            "every partition is owned once", f"group {group_id} owns {owned}, wants {sorted(wanted)}"
        )


def check_leftovers(
    broker: SimulatedBroker, invariants: Invariants, groups: Sequence[str], topics: Mapping[str, int]
) -> None:
    """Nothing waits, and memory holds what groups, members and keys need."""
    for request in invariants.outstanding:
        raise InvariantViolated("every request is answered exactly once", f"no response to {request.command}")
    known = {*groups, "simple"}
    live: dict[str, Group] = {}
    for number, shard in broker.coordinator.shards.items():
        if shard.tickets_in_flight:
            raise _left(f"partition {number} waits for appends {shard.tickets_in_flight}")
        live.update(shard.groups)
    for group_id, group in live.items():
        if group_id not in known:
            raise _left(f"an unknown group: {group_id}")
        if group.is_being_removed or group.waiting_joins:
            raise _left(f"group {group_id} is stuck: {group.is_being_removed} {group.waiting_joins}")
        for member in group.members.values():
            if member.join_token is not None or member.sync_token is not None:
                raise _left(f"member {member.member_id} of {group_id} still waits")
        if len(group.offsets) > sum(topics.values()):
            raise _left(f"group {group_id} has {len(group.offsets)} offsets")
    for key in broker.armed_timers:
        _check_timer(key, live)


def _check_timer(key: tuple[int, str, str, str], live: Mapping[str, Group]) -> None:
    _, kind, group_id, member_id = key
    if kind not in (SESSION_TIMER, JOIN_TIMER, SYNC_TIMER):
        return
    group = live.get(group_id)
    if group is None:
        raise _left(f"a timer of a group that is gone: {key}")
    if kind == SESSION_TIMER and member_id not in group.members and member_id not in group.pending:
        raise _left(f"a timer of a member that is gone: {key}")
    if kind == JOIN_TIMER and group.join_deadline_ms is None:
        raise _left(f"a join timer without a join: {key}")
    if kind == SYNC_TIMER and group.sync_deadline_ms is None:
        raise _left(f"a sync timer without a rebalance: {key}")


def _left(reason: str) -> InvariantViolated:
    return InvariantViolated("memory is bounded by groups, members and keys", reason)
