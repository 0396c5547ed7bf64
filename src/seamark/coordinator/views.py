"""DescribeGroups and ListGroups: groups as others see them (D35).

Nothing here changes anything, and nothing is shown that is not there yet: a group that so far exists only in an append
under way is left out.
"""

from __future__ import annotations

from seamark.coordinator.commands import DescribeGroups, ListGroups
from seamark.coordinator.effects import Effects, Token
from seamark.coordinator.membership.groups import Group
from seamark.coordinator.replies import DescribedGroup, DescribedMember, DescribeReply, ListedGroup, ListReply
from seamark.coordinator.shard_state import ShardState
from seamark.coordinator.states import State
from seamark.counts import shortened
from seamark.wire.protocol.error_codes import ErrorCode

GROUP_TYPE = "classic"


def describe(state: ShardState, command: DescribeGroups, token: Token, _now_ms: int, effects: Effects) -> None:
    reply = DescribeReply([_describe_one(state, group_id, command) for group_id in command.group_ids])
    effects.replies.append((token, reply))


def _describe_one(state: ShardState, group_id: str | None, command: DescribeGroups) -> DescribedGroup:
    if group_id is None:
        return DescribedGroup(None, ErrorCode.INVALID_GROUP_ID)
    group = state.groups.get(group_id)
    if group is None or not _is_visible(state, group):
        missing = DescribedGroup(group_id, state=State.DEAD.value)
        # v6 is the first version that can tell a group that never was from one that has died.
        if command.missing_is_error:
            missing.error = ErrorCode.GROUP_ID_NOT_FOUND
            missing.error_message = f"Group {shortened(group_id)} not found."
        return missing
    # Between generations the protocol and the subscriptions are about to change, so only Stable tells them.
    protocol = group.protocol if group.state is State.STABLE else None
    return DescribedGroup(
        group_id,
        state=group.effective_state.value,
        protocol_type=group.protocol_type or "",
        protocol=protocol or "",
        members=[
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                b"" if protocol is None else member.metadata(protocol),
                member.assignment,
            )
            for member in group.members.values()
        ],
    )


def list_groups(state: ShardState, command: ListGroups, token: Token, _now_ms: int, effects: Effects) -> None:
    states = command.states
    reply = ListReply()
    effects.replies.append((token, reply))
    if command.types and GROUP_TYPE not in command.types:
        return
    for group in state.groups.values():
        name = group.effective_state.value
        if _is_visible(state, group) and (not states or name.lower() in states):
            reply.groups.append(ListedGroup(group.group_id, group.protocol_type or "", name, GROUP_TYPE))


def _is_visible(state: ShardState, group: Group) -> bool:
    """A group whose first record is still on its way to the log is not there yet, unless it has had members."""
    return group.has_substance or group.generation > 0 or group.last_ticket not in state.in_flight
