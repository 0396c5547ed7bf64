"""Refusing a request as a whole: which code, in which order, and in the shape of each reply.

The order is that of 4.x (D3): coordinator not running, invalid group id, session timeout out of range, then loading
and not the coordinator. A loading coordinator answers heartbeats with NONE, so that members stay calm, and SyncGroup
with REBALANCE_IN_PROGRESS, which every client understands there (D28, D29).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seamark.coordinator.commands import (
    Command,
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    ForgetTopics,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    SyncGroup,
)
from seamark.coordinator.offsets.commit_patterns import CommitAgain
from seamark.coordinator.offsets.commits import refuse_commit
from seamark.coordinator.replies import (
    DeleteGroupsReply,
    DeleteOffsetsReply,
    DescribedGroup,
    DescribeReply,
    FetchReply,
    ForgetReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    ListReply,
    Reply,
    SyncReply,
)
from seamark.coordinator.settings import Settings
from seamark.coordinator.shard_state import PartitionCount
from seamark.wire.protocol.error_codes import ErrorCode

_NONE = ErrorCode.NONE
# Clients offer one or two; each costs all others of the group a comparison.
MAX_PROTOCOLS = 100
# Where there is no coordinator yet, 4.x does not echo the joiner's id (D2).
_BLANK_ID_CODES = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})


def invalidity(command: Command | CommitAgain, settings: Settings) -> ErrorCode:
    """What is wrong with the command whatever the groups are; NONE if nothing is."""
    check = _CHECKS.get(type(command))
    return _NONE if check is None else check(command, settings)


def _check_offsets(command: CommitOffsets | FetchOffsets, _settings: Settings) -> ErrorCode:
    # Kept from the times before group membership: here the empty name is a group like any other.
    return ErrorCode.INVALID_GROUP_ID if command.group_id is None else _NONE


def _check_named(command: Heartbeat | LeaveGroup | DeleteOffsets, _settings: Settings) -> ErrorCode:
    return _NONE if command.group_id else ErrorCode.INVALID_GROUP_ID


def _check_join(command: JoinGroup, settings: Settings) -> ErrorCode:
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not settings.min_session_timeout_ms <= command.session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.INCONSISTENT_GROUP_PROTOCOL if len(command.protocols) > MAX_PROTOCOLS else ErrorCode.NONE


def _check_sync(command: SyncGroup, _settings: Settings) -> ErrorCode:
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if command.protocol_required and (command.protocol_type is None or command.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


_CHECKS: dict[type, Callable[[Any, Settings], ErrorCode]] = {
    CommitOffsets: _check_offsets,
    FetchOffsets: _check_offsets,
    JoinGroup: _check_join,
    SyncGroup: _check_sync,
    Heartbeat: _check_named,
    LeaveGroup: _check_named,
    DeleteOffsets: _check_named,
}


def refuse(command: Command | CommitAgain, code: ErrorCode, partition_count: PartitionCount) -> Reply:
    """The reply that carries ``code`` in the way the command's API does."""
    is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    match command:
        case JoinGroup():
            return JoinReply(code, "" if code in _BLANK_ID_CODES else command.member_id)
        case SyncGroup():
            return SyncReply(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else code)
        case Heartbeat():
            return HeartbeatReply(ErrorCode.NONE if is_loading else code)
        case LeaveGroup():
            return LeaveReply(code)
        case CommitOffsets():
            return refuse_commit(command, partition_count, code)
        case CommitAgain():
            return refuse_commit(command.spelled_out(), partition_count, code)
        case FetchOffsets():
            return FetchReply(command.group_id, code)
        case DeleteOffsets():
            return DeleteOffsetsReply(code)
        case DeleteGroups():
            return DeleteGroupsReply([(group_id, _or_invalid(group_id, code)) for group_id in command.group_ids])
        case DescribeGroups():
            return DescribeReply(
                [DescribedGroup(group_id, _or_invalid(group_id, code)) for group_id in command.group_ids]
            )
        case ListGroups():
            return ListReply(code)
        case ForgetTopics():
            return ForgetReply(code)


def _or_invalid(group_id: str | None, code: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_GROUP_ID if group_id is None else code
