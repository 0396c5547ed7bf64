"""LeaveGroup: members go at once, each with its own result (D32).

A blank member id with an instance id is an administrative removal of a static member. All members of one request leave
before the group rebalances once for all of them.
"""

from __future__ import annotations

from seamark.coordinator.commands import REASON_NOT_GIVEN, UNKNOWN_MEMBER, LeaveGroup, LeavingMember
from seamark.coordinator.effects import Effects, Token
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.pending_members import drop_if_nobody_joined, forget_pending_member
from seamark.coordinator.membership.rebalancing import drop_member, rebalance_or_complete
from seamark.coordinator.replies import LeaveReply, LeftMember
from seamark.coordinator.shard_state import ShardState
from seamark.coordinator.states import State
from seamark.counts import some_of
from seamark.wire.protocol.error_codes import ErrorCode


def leave(state: ShardState, command: LeaveGroup, token: Token, now_ms: int, effects: Effects) -> None:
    group = state.groups.get(command.group_id or "")
    reply = LeaveReply()
    # The reply does not depend on the empty generation that may follow: its append may fail with a mere warning (D24).
    effects.replies.append((token, reply))
    if group is None:
        reply.members = [
            LeftMember(member_id, instance_id, ErrorCode.UNKNOWN_MEMBER_ID)
            for member_id, instance_id, _ in command.members
        ]
        return
    if group.effective_state is State.DEAD:
        reply.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return
    gone = []
    for leaving in command.members:
        code = _remove(state, group, leaving, effects)
        reply.members.append(LeftMember(leaving[0], leaving[1], code))
        if code is ErrorCode.NONE:
            gone.append(leaving[0] or str(leaving[1]))
    if gone and group.state is not State.EMPTY:
        rebalance_or_complete(state, group, f"{some_of(gone)} left", now_ms, effects)
    drop_if_nobody_joined(state, group)


def _remove(state: ShardState, group: Group, leaving: LeavingMember, effects: Effects) -> ErrorCode:
    member_id, instance_id, reason = leaving
    if member_id == UNKNOWN_MEMBER:
        if instance_id is None or instance_id not in group.static_ids:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_ids[instance_id]
    elif member_id in group.pending:
        forget_pending_member(state, group, member_id, effects)
        return ErrorCode.NONE
    else:
        code = group.refusal_of(member_id, instance_id)
        if code is not ErrorCode.NONE:
            return code
    effects.info(
        "member_left",
        group.group_id,
        f"member {member_id} left group {group.group_id}, client reason: {reason or REASON_NOT_GIVEN}",
    )
    drop_member(state, group, group.members[member_id], effects)
    return ErrorCode.NONE
