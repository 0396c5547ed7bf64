"""Heartbeats and what happens when they stay away (D29 to D31).

Heartbeats and accepted commits restart a session, offset fetches do not. A member that waits in JoinGroup or
SyncGroup does not expire, unless it is brand-new and its five minutes are over.
"""

from __future__ import annotations

from seamark.coordinator.commands import Heartbeat
from seamark.coordinator.effects import Effects, Token
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.members import NEVER_MS
from seamark.coordinator.membership.pending_members import expire_pending_member
from seamark.coordinator.membership.rebalancing import drop_member, rebalance_or_complete
from seamark.coordinator.membership.timers import restart_session
from seamark.coordinator.replies import HeartbeatReply
from seamark.coordinator.shard_state import ShardState
from seamark.coordinator.states import HEARTBEAT_ANSWERS, State
from seamark.wire.protocol.error_codes import ErrorCode


def heartbeat(state: ShardState, command: Heartbeat, token: Token, now_ms: int, effects: Effects) -> None:
    effects.replies.append((token, HeartbeatReply(_answer(state, command, now_ms, effects))))


def _answer(state: ShardState, command: Heartbeat, now_ms: int, effects: Effects) -> ErrorCode:
    group = state.groups.get(command.group_id or "")
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.effective_state is State.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.refusal_of(command.member_id, command.instance_id)
    if code is not ErrorCode.NONE:
        return code
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    restart_session(state, group, group.members[command.member_id], now_ms, effects)
    return HEARTBEAT_ANSWERS[group.state]


def fire_session_timer(state: ShardState, group: Group, member_id: str, now_ms: int, effects: Effects) -> None:
    if member_id in group.pending:
        expire_pending_member(state, group, member_id, now_ms, effects)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    member.armed_ms = NEVER_MS
    if now_ms < member.session_deadline_ms:
        restart_session(state, group, member, now_ms, effects, member.session_deadline_ms - now_ms)
    elif not member.counts_as_alive:
        effects.info(
            "member_expired", group.group_id, f"member {member_id} of group {group.group_id} sent no heartbeat in time"
        )
        drop_member(state, group, member, effects)
        rebalance_or_complete(state, group, f"member {member_id} expired", now_ms, effects)
