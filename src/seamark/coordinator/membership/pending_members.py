"""Ids that were handed out with MEMBER_ID_REQUIRED and have not joined yet (D12).

Whoever asks for an id holds memory here for a session timeout, at no cost of its own. So what all of them hold is
bounded, in bytes because an id begins with the client's own, and beyond that the oldest is forgotten: who
means to join is back in a moment.

A group that was made for such an id goes with it.
"""

from __future__ import annotations

from sys import getsizeof

from seamark.coordinator.effects import Arm, Cancel, Effects
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.rebalancing import complete_if_all_joined
from seamark.coordinator.membership.timers import SESSION_TIMER
from seamark.coordinator.shard_state import PendingMembers, ShardState
from seamark.coordinator.states import State

# About 18,000 ids of an ordinary length.
MAX_BYTES = 16 << 20
# The entries in tables and timers, and the group if it was made for the id.
_ID_BYTES = 700
_GROUP_BYTES = 1500


def expect_pending_member(
    state: ShardState, group: Group, member_id: str, deadline_ms: int, now_ms: int, effects: Effects
) -> None:
    """Remember an id until the session timeout."""
    group.pending[member_id] = deadline_ms
    effects.timers.append(Arm((state.partition, SESSION_TIMER, group.group_id, member_id), deadline_ms))
    pending = state.pending_members
    place = state, group.group_id, member_id
    if place not in pending.sizes:
        size = _ID_BYTES + getsizeof(member_id)
        if not group.members and group.stored is None:
            size += _GROUP_BYTES + getsizeof(group.group_id)
        pending.sizes[place] = size
        pending.byte_count += size
        while pending.byte_count > MAX_BYTES:
            _forget_oldest(pending, now_ms, effects)


def _forget_oldest(pending: PendingMembers, now_ms: int, effects: Effects) -> None:
    state, group_id, member_id = next(iter(pending.sizes))
    group = state.groups[group_id]
    forget_pending_member(state, group, member_id, effects)
    complete_if_all_joined(state, group, now_ms, effects)
    drop_if_nobody_joined(state, group)


def drop_if_nobody_joined(state: ShardState, group: Group) -> None:
    if group.state is State.EMPTY:
        state.drop_if_hollow(group)


def forget_pending_member(state: ShardState, group: Group, member_id: str, effects: Effects) -> None:
    if group.pending.pop(member_id, None) is not None:
        pending = state.pending_members
        pending.byte_count -= pending.sizes.pop((state, group.group_id, member_id))
        effects.timers.append(Cancel((state.partition, SESSION_TIMER, group.group_id, member_id)))


def expire_pending_member(state: ShardState, group: Group, member_id: str, now_ms: int, effects: Effects) -> None:
    """The timer of a pending member is due; one that is early is armed again."""
    deadline_ms = group.pending[member_id]
    if now_ms < deadline_ms:
        expect_pending_member(state, group, member_id, deadline_ms, now_ms, effects)
        return
    forget_pending_member(state, group, member_id, effects)
    effects.info(
        "pending_member_expired",
        group.group_id,
        f"pending member {member_id} of group {group.group_id} did not join within its session timeout",
    )
    complete_if_all_joined(state, group, now_ms, effects)
    drop_if_nobody_joined(state, group)
