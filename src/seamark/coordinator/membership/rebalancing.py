"""The join phase: how a rebalance starts, who is dropped, and how the next generation begins.

Every path that changes the members of a group ends in ``rebalance_or_complete`` or ``complete_if_all_joined``. A
waiting request of a member that leaves the group is answered before the member goes, so no token is ever lost.
"""

from __future__ import annotations

from seamark.coordinator.effects import Effects
from seamark.coordinator.membership.groups import Group, InitialDelay
from seamark.coordinator.membership.members import Member
from seamark.coordinator.membership.timers import (
    arm_join,
    arm_sync,
    restart_session,
    stop_join,
    stop_session,
    stop_sync,
)
from seamark.coordinator.replies import JoinReply, SyncReply
from seamark.coordinator.shard_state import Pending, ShardState
from seamark.coordinator.states import PREDECESSORS, State
from seamark.counts import counted, some_of
from seamark.wire.protocol.error_codes import ErrorCode

# A rebalance that nobody joined is tried again after the rebalance timeout, but not more often than this: a member
# may have sent a timeout of 0, which would otherwise fire without end within one millisecond.
_LEAST_RETRY_MS = 1000


def rebalance_or_complete(state: ShardState, group: Group, reason: str, now_ms: int, effects: Effects) -> None:
    """Start a rebalance, or, if one is under way, see whether it can end."""
    if group.state in PREDECESSORS[State.PREPARING]:
        prepare_rebalance(state, group, reason, now_ms, effects)
    else:
        complete_if_all_joined(state, group, now_ms, effects)


def prepare_rebalance(state: ShardState, group: Group, reason: str, now_ms: int, effects: Effects) -> None:
    """D14 to D17."""
    if group.state is State.COMPLETING:
        for member in group.members.values():
            member.assignment = b""
        answer_waiting_syncs(state, group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms, effects)
    stop_sync(state, group, effects)
    group.pending_sync.clear()
    group.sync_ticket = None
    group.initial_delay = None
    group.new_member_added = False
    if group.state is State.EMPTY:
        delay_ms = state.settings.initial_rebalance_delay_ms
        group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
    before = group.state
    group.move_to(State.PREPARING, now_ms)
    effects.info(
        "rebalance_prepared",
        group.group_id,
        f"preparing to rebalance group {group.group_id} in state {before.value} with old generation {group.generation} "
        f"(__consumer_offsets-{state.partition}), reason: {reason}",
    )
    if group.initial_delay is not None:
        arm_join(state, group, now_ms + group.initial_delay.delay_ms, effects)
    elif group.all_have_joined:
        complete_join(state, group, now_ms, effects)
    else:
        arm_join(state, group, now_ms + group.rebalance_timeout_ms, effects)


def complete_if_all_joined(state: ShardState, group: Group, now_ms: int, effects: Effects) -> None:
    """D10, D19; an initial delayed join never ends early (D18)."""
    if group.state is State.PREPARING and group.initial_delay is None and group.all_have_joined:
        complete_join(state, group, now_ms, effects)


def fire_join_timer(state: ShardState, group: Group, now_ms: int, effects: Effects) -> None:
    """The join phase has run out of time, or an initial window ends (D18)."""
    if group.join_deadline_ms is None:
        return
    if now_ms < group.join_deadline_ms:
        arm_join(state, group, group.join_deadline_ms, effects)
        return
    group.join_deadline_ms = None
    window = group.initial_delay
    if window is not None and group.new_member_added and window.remaining_ms != 0:
        group.new_member_added = False
        delay_ms = min(state.settings.initial_rebalance_delay_ms, window.remaining_ms)
        group.initial_delay = InitialDelay(delay_ms, max(window.remaining_ms - window.delay_ms, 0))
        arm_join(state, group, now_ms + delay_ms, effects)
    else:
        complete_join(state, group, now_ms, effects)


def complete_join(state: ShardState, group: Group, now_ms: int, effects: Effects) -> None:
    """End the join phase: D20 to D25."""
    stop_join(state, group, effects)
    group.initial_delay = None
    silent = [member for member in group.members.values() if member.join_token is None and not member.is_static]
    for member in silent:
        drop_member(state, group, member, effects)
    if silent:
        names = some_of([member.member_id for member in silent])
        effects.info(
            "members_removed", group.group_id, f"group {group.group_id} removed members that did not rejoin: {names}"
        )
    if group.state is State.DEAD:
        effects.info("group_dead", group.group_id, f"group {group.group_id} is dead, skipping the rebalance")
        return
    if group.members and not group.elect_rejoined_leader():
        effects.error(
            "nobody_rejoined",
            group.group_id,
            f"group {group.group_id} could not complete its rebalance because no member rejoined",
        )
        arm_join(state, group, now_ms + max(group.rebalance_timeout_ms, _LEAST_RETRY_MS), effects)
        return
    group.next_generation(now_ms)
    if group.members:
        _answer_joins(state, group, now_ms, effects)
    else:
        effects.info(
            "group_empty", group.group_id, f"group {group.group_id} with generation {group.generation} is now empty"
        )
        group.last_ticket = state.append(_EmptyGroup(group, now_ms), effects)


def _answer_joins(state: ShardState, group: Group, now_ms: int, effects: Effects) -> None:
    effects.info(
        "group_stabilized",
        group.group_id,
        f"stabilized group {group.group_id} generation {group.generation} with {counted(len(group.members), 'member')}",
    )
    for member in group.members.values():
        answer_join(group, member, generation_reply(group, member), effects)
        restart_session(state, group, member, now_ms, effects)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    arm_sync(state, group, now_ms + group.rebalance_timeout_ms, effects)


def generation_reply(group: Group, member: Member) -> JoinReply:
    """The current generation as JoinGroup tells it: the leader gets all members, others an empty list."""
    return JoinReply(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        group.member_list() if group.leader == member.member_id else [],
    )


def answer_join(group: Group, member: Member, reply: JoinReply, effects: Effects) -> None:
    """Answer the member's waiting JoinGroup, if it has one."""
    if member.join_token is not None:
        effects.replies.append((member.join_token, reply))
        member.join_token = None
        group.waiting_joins -= 1


def answer_sync(member: Member, reply: SyncReply, effects: Effects) -> None:
    """Answer the member's waiting SyncGroup, if it has one."""
    if member.sync_token is not None:
        effects.replies.append((member.sync_token, reply))
        member.sync_token = None


def answer_waiting_syncs(state: ShardState, group: Group, code: ErrorCode, now_ms: int, effects: Effects) -> None:
    """Answer every waiting SyncGroup with the member's assignment or with an error."""
    for member in group.members.values():
        if member.sync_token is None:
            continue
        if code is ErrorCode.NONE:
            reply = SyncReply(code, group.protocol_type, group.protocol, member.assignment)
        else:
            reply = SyncReply(code)
        answer_sync(member, reply, effects)
        # While it waited its session may have run out unnoticed (D30); from here on it has to send heartbeats again.
        restart_session(state, group, member, now_ms, effects)


def drop_member(state: ShardState, group: Group, member: Member, effects: Effects) -> None:
    """Take a member out of the group; what it waits for is answered UNKNOWN_MEMBER_ID, so that it joins anew."""
    answer_join(group, member, JoinReply(ErrorCode.UNKNOWN_MEMBER_ID), effects)
    answer_sync(member, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID), effects)
    stop_session(state, group, member, effects)
    group.remove(member)


class _EmptyGroup(Pending):
    """D24: an empty generation on its way to the log; a failure is only a warning."""

    __slots__ = ("group_id",)

    def __init__(self, group: Group, now_ms: int) -> None:
        super().__init__([group.to_store({})], now_ms)
        self.group_id = group.group_id

    def on_failed(self, _state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        self._warn(code, effects)

    def on_late(self, _state: ShardState, code: ErrorCode, _now_ms: int, effects: Effects) -> None:
        self._warn(code, effects)

    def _warn(self, code: ErrorCode, effects: Effects) -> None:
        effects.warn(
            "empty_group_not_stored", self.group_id, f"failed to write empty metadata for group {self.group_id}: {code}"
        )
