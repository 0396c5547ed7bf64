"""Timers of groups and members: their keys, and when the shell has to be told about them.

A session is restarted by moving its deadline. The shell's timer is armed anew only if it would fire too late; when it
fires too early, ``fire`` finds time left and arms it again. Join and sync timers are few and are armed exactly.
"""

from __future__ import annotations

from seamark.coordinator.effects import Arm, Cancel, Effects
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.members import NEVER_MS, Member
from seamark.coordinator.shard_state import ShardState

SESSION_TIMER = "session"
JOIN_TIMER = "join"
SYNC_TIMER = "sync"
EXPIRY_TIMER = "expiry"


def restart_session(
    state: ShardState, group: Group, member: Member, now_ms: int, effects: Effects, timeout_ms: int | None = None
) -> None:
    """Give the member its session timeout (or another time) from now on."""
    deadline_ms = now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
    member.session_deadline_ms = deadline_ms
    if deadline_ms < member.armed_ms:
        member.armed_ms = deadline_ms
        effects.timers.append(Arm((state.partition, SESSION_TIMER, group.group_id, member.member_id), deadline_ms))


def stop_session(state: ShardState, group: Group, member: Member, effects: Effects) -> None:
    if member.armed_ms != NEVER_MS:
        member.armed_ms = NEVER_MS
        effects.timers.append(Cancel((state.partition, SESSION_TIMER, group.group_id, member.member_id)))


def arm_join(state: ShardState, group: Group, deadline_ms: int, effects: Effects) -> None:
    group.join_deadline_ms = deadline_ms
    effects.timers.append(Arm((state.partition, JOIN_TIMER, group.group_id, ""), deadline_ms))


def stop_join(state: ShardState, group: Group, effects: Effects) -> None:
    if group.join_deadline_ms is not None:
        group.join_deadline_ms = None
        effects.timers.append(Cancel((state.partition, JOIN_TIMER, group.group_id, "")))


def arm_sync(state: ShardState, group: Group, deadline_ms: int, effects: Effects) -> None:
    group.sync_deadline_ms = deadline_ms
    effects.timers.append(Arm((state.partition, SYNC_TIMER, group.group_id, ""), deadline_ms))


def stop_sync(state: ShardState, group: Group, effects: Effects) -> None:
    if group.sync_deadline_ms is not None:
        group.sync_deadline_ms = None
        effects.timers.append(Cancel((state.partition, SYNC_TIMER, group.group_id, "")))


def move_deadlines(state: ShardState, by_ms: int) -> None:
    """The clock was set ahead: whatever is to happen later keeps its distance from now. So do the shell's timers."""
    for group in state.groups.values():
        for member in group.members.values():
            if member.session_deadline_ms != NEVER_MS:
                member.session_deadline_ms += by_ms
            if member.armed_ms != NEVER_MS:
                member.armed_ms += by_ms
        for member_id in group.pending:
            group.pending[member_id] += by_ms
        if group.join_deadline_ms is not None:
            group.join_deadline_ms += by_ms
        if group.sync_deadline_ms is not None:
            group.sync_deadline_ms += by_ms
    for append in state.in_flight.values():
        append.decided_ms += by_ms
        for waiter in append.waiters or ():
            waiter.deadline_ms += by_ms
    if state.append_timer_ms != NEVER_MS:
        state.append_timer_ms += by_ms


def arm_expiry(state: ShardState, deadline_ms: int, effects: Effects) -> None:
    effects.timers.append(Arm((state.partition, EXPIRY_TIMER, "", ""), deadline_ms))
