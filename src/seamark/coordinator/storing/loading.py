"""Taking over and giving up the groups of an offsets partition (F13 to F15).

After a load the groups are what replay gives: Stable with members, who have one session timeout to show up, else
Empty. At an unload every waiting request is answered NOT_COORDINATOR, every timer cancelled and everything forgotten;
late outcomes of old appends then find no ticket.
"""

from __future__ import annotations

from itertools import islice

from seamark.coordinator.effects import Cancel, Effects
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.members import NEVER_MS
from seamark.coordinator.membership.pending_members import forget_pending_member
from seamark.coordinator.membership.rebalancing import answer_join, answer_sync, prepare_rebalance
from seamark.coordinator.membership.timers import (
    EXPIRY_TIMER,
    arm_expiry,
    restart_session,
    stop_join,
    stop_session,
    stop_sync,
)
from seamark.coordinator.replies import JoinReply, SyncReply
from seamark.coordinator.shard_state import APPEND_TIMER, SWEEP_TIMER, ShardState
from seamark.coordinator.states import State
from seamark.counts import counted
from seamark.wire.protocol.error_codes import ErrorCode

_GROUPS_AT_ONCE = 1000


class Revival:
    """Makes the replayed groups live: some at a time, and at the end the clock starts for all members."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._left = iter(list(state.groups.items()))
        self._with_members: list[Group] = []

    def take(self, count: int) -> bool:
        """Revive so many groups; whether there may be more."""
        groups = self._state.groups
        part = list(islice(self._left, count))
        for group_id, group in part:
            group.revive()
            if not group.has_substance:
                del groups[group_id]
            elif group.members:
                self._with_members.append(group)
        return bool(part)

    def finish(self, now_ms: int, effects: Effects) -> None:
        while self.take(_GROUPS_AT_ONCE):
            pass
        for group in self._with_members:
            _expect_members(self._state, group, now_ms, effects)
        _tell_loaded(self._state, now_ms, effects)


def _expect_members(state: ShardState, group: Group, now_ms: int, effects: Effects) -> None:
    limit = state.settings.max_group_size
    for member in group.members.values():
        restart_session(state, group, member, now_ms, effects)
        state.member_bytes.loaded(member)
    if len(group.members) > limit:
        reason = f"loaded with {counted(len(group.members), 'member')}, {limit} are allowed"
        prepare_rebalance(state, group, reason, now_ms, effects)


def _tell_loaded(state: ShardState, now_ms: int, effects: Effects) -> None:
    arm_expiry(state, now_ms + state.settings.retention_check_interval_ms, effects)
    effects.info(
        "loaded", "", f"loaded {counted(len(state.groups), 'group')} from __consumer_offsets-{state.partition}"
    )


def give_up_groups(state: ShardState, now_ms: int, effects: Effects) -> None:
    code = ErrorCode.NOT_COORDINATOR
    for pending in state.in_flight.values():
        pending.on_unloaded(code, effects)
        for waiter in pending.waiters or ():
            waiter.give_up(effects)
    for sweep in state.sweeps:
        sweep.on_unloaded(code, effects)
    if state.sweeps:
        state.sweeps.clear()
        effects.timers.append(Cancel((state.partition, SWEEP_TIMER, "", "")))
    state.is_checking_expiry = False
    state.forgetting.clear()
    state.in_flight.clear()
    state.oldest_ticket = state.next_ticket
    for group in state.groups.values():
        for member in group.members.values():
            answer_join(group, member, JoinReply(code), effects)
            answer_sync(member, SyncReply(code), effects)
            stop_session(state, group, member, effects)
        for member_id in list(group.pending):
            forget_pending_member(state, group, member_id, effects)
        stop_join(state, group, effects)
        stop_sync(state, group, effects)
        group.move_to(State.DEAD, now_ms)
    effects.info(
        "unloaded", "", f"unloaded {counted(len(state.groups), 'group')} of __consumer_offsets-{state.partition}"
    )
    state.groups.clear()
    if state.append_timer_ms != NEVER_MS:
        state.append_timer_ms = NEVER_MS
        effects.timers.append(Cancel((state.partition, APPEND_TIMER, "", "")))
    effects.timers.append(Cancel((state.partition, EXPIRY_TIMER, "", "")))
