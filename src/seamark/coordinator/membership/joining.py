"""JoinGroup: who may join, under which id, and whether the group has to rebalance for it.

Order of the checks (D5 to D13): the group exists or the joiner is new, capacity, the group is not dead, a protocol is
shared with all members, the ids are right. Static members, which may take their identity back without a rebalance,
are in ``static_members``.
"""

from __future__ import annotations

from seamark.coordinator.commands import UNKNOWN_MEMBER, JoinGroup
from seamark.coordinator.effects import Effects, Token
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.membership.members import Member, Protocols, distinct_protocols
from seamark.coordinator.membership.pending_members import expect_pending_member, forget_pending_member
from seamark.coordinator.membership.rebalancing import (
    answer_join,
    complete_if_all_joined,
    drop_member,
    generation_reply,
    rebalance_or_complete,
)
from seamark.coordinator.membership.static_members import replace_static_member
from seamark.coordinator.membership.timers import restart_session
from seamark.coordinator.replies import JoinReply
from seamark.coordinator.shard_state import ShardState
from seamark.coordinator.states import State
from seamark.wire.protocol.error_codes import ErrorCode

# Characters of the client's name at the start of a member id. With all that a name may have the id would have more
# bytes than a text on the wire.
_LONGEST_PREFIX = 8000


def join(state: ShardState, command: JoinGroup, token: Token, now_ms: int, effects: Effects) -> None:
    group_id = command.group_id or ""
    is_first_join = command.member_id == UNKNOWN_MEMBER
    group = state.groups.get(group_id)
    if group is None:
        if not is_first_join:
            effects.replies.append((token, JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, command.member_id)))
            return
        group = Group(group_id)
    if not _has_room(state, group, command.member_id):
        _turn_away(state, group, command.member_id, now_ms, effects)
        effects.replies.append((token, JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED)))
        return
    protocols = distinct_protocols(command.protocols)
    if group.effective_state is State.DEAD:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    elif not group.supports(command.protocol_type, protocols):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    elif is_first_join:
        state.groups[group_id] = group
        _join_first_time(state, group, command, protocols, token, now_ms, effects)
        return
    else:
        _join_again(state, group, command, protocols, token, now_ms, effects)
        return
    effects.replies.append((token, JoinReply(code, command.member_id)))


def _has_room(state: ShardState, group: Group, member_id: str) -> bool:
    """D7. While members rejoin, those who came first keep their places; the size counts again afterwards."""
    limit = state.settings.max_group_size
    match group.effective_state:
        case State.EMPTY | State.DEAD:
            return True
        case State.PREPARING:
            member = group.members.get(member_id)
            return (member is not None and member.join_token is not None) or group.waiting_joins < limit
        case _:
            return member_id in group.members or len(group.members) < limit


def _turn_away(state: ShardState, group: Group, member_id: str, now_ms: int, effects: Effects) -> None:
    """D6: a member that finds no room any more loses its place, which may let the others go on."""
    forget_pending_member(state, group, member_id, effects)
    member = group.members.get(member_id)
    if member is not None:
        drop_member(state, group, member, effects)
    complete_if_all_joined(state, group, now_ms, effects)


def _join_first_time(
    state: ShardState,
    group: Group,
    command: JoinGroup,
    protocols: Protocols,
    token: Token,
    now_ms: int,
    effects: Effects,
) -> None:
    instance_id = command.instance_id
    prefix = command.client_id if instance_id is None else instance_id
    new_id = f"{prefix[:_LONGEST_PREFIX]}-{state.make_id()}"
    if instance_id is not None and instance_id in group.static_ids:
        replace_static_member(state, group, command, protocols, new_id, token, now_ms, effects)
    elif instance_id is None and command.require_known_member_id:
        expect_pending_member(state, group, new_id, now_ms + command.session_timeout_ms, now_ms, effects)
        effects.replies.append((token, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, new_id)))
    else:
        _add_member(state, group, command, protocols, new_id, token, now_ms, effects)


def _join_again(
    state: ShardState,
    group: Group,
    command: JoinGroup,
    protocols: Protocols,
    token: Token,
    now_ms: int,
    effects: Effects,
) -> None:
    """The current-member path, D13."""
    member_id = command.member_id
    if member_id in group.pending and command.instance_id is None:
        forget_pending_member(state, group, member_id, effects)
        _add_member(state, group, command, protocols, member_id, token, now_ms, effects)
        return
    refusal = group.refusal_of(member_id, command.instance_id)
    if refusal is not ErrorCode.NONE:
        effects.replies.append((token, JoinReply(refusal, member_id)))
        return
    member = group.members[member_id]
    has_changed = member.protocols != protocols
    if group.state is State.PREPARING:
        reason = f"member {member_id} is joining"
    elif group.state is State.STABLE and group.leader == member_id:
        # The leader may know of changes that no member's metadata shows, such as new partitions.
        reason = f"leader {member_id} is joining again"
    elif has_changed:
        reason = f"member {member_id} changed its metadata"
    else:
        # The member missed the answer of this generation; it needs no new one.
        effects.replies.append((token, generation_reply(group, member)))
        return
    _update_member(group, member, command, protocols, token, effects)
    rebalance_or_complete(state, group, f"{reason}; client reason: {command.reason_text}", now_ms, effects)
    if has_changed:
        state.member_bytes.added(member, now_ms, effects)


def _add_member(
    state: ShardState,
    group: Group,
    command: JoinGroup,
    protocols: Protocols,
    member_id: str,
    token: Token,
    now_ms: int,
    effects: Effects,
) -> None:
    member = Member(
        member_id,
        command.instance_id,
        command.client_id,
        command.client_host,
        command.effective_rebalance_timeout_ms,
        command.session_timeout_ms,
        protocols,
        principal=command.principal,
    )
    member.is_new = True
    if group.initial_delay is not None:
        group.new_member_added = True
    group.add(member, command.protocol_type, token)
    restart_session(state, group, member, now_ms, effects, state.settings.new_member_timeout_ms)
    reason = f"adding new member {member_id} with group instance id {command.instance_id}"
    rebalance_or_complete(state, group, f"{reason}; client reason: {command.reason_text}", now_ms, effects)
    state.member_bytes.added(member, now_ms, effects)


def _update_member(
    group: Group, member: Member, command: JoinGroup, protocols: Protocols, token: Token, effects: Effects
) -> None:
    # A second JoinGroup replaces the first, which is answered so that no request waits for ever.
    answer_join(group, member, JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), effects)
    group.change_protocols(member, protocols)
    member.rebalance_timeout_ms = command.effective_rebalance_timeout_ms
    member.session_timeout_ms = command.session_timeout_ms
    member.principal = command.principal
    member.join_token = token
    group.waiting_joins += 1
