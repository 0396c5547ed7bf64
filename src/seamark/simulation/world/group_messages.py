"""Between the wire's messages about groups and the coordinator's commands and replies, version by version.

What the version says about a client goes into the command (A24). The broker has its own handlers for this; a simulated
node shares no code with them, so that what one of them gets wrong shows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from seamark.coordinator.commands import (
    Command,
    CommitOffsets,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    SyncGroup,
)
from seamark.coordinator.replies import (
    CommitReply,
    FetchedOffset,
    FetchReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    Reply,
    SyncReply,
)
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from seamark.wire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, LeaveGroupResponseMember
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from seamark.wire.schema.schema import Message

Respond = Callable[[Reply], Message]


def read_join(request: JoinGroupRequest, version: int, client_id: str) -> tuple[Command, Callable[..., Message]]:
    command = JoinGroup(
        request.group_id,
        request.member_id,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocol_type,
        [(each.name, bytes(each.metadata)) for each in request.protocols],
        request.group_instance_id,
        require_known_member_id=version >= 4,
        supports_skip_assignment=version >= 9,
        client_id=client_id,
        client_host="/simulated",
        reason=request.reason,
    )
    return command, partial(_joined, version)


def _joined(version: int, reply: JoinReply) -> Message:
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        # Nulls exist from version 7 on.
        protocol_name=reply.protocol_name or (None if version >= 7 else ""),
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in reply.members
        ],
    )


def read_sync(request: SyncGroupRequest, version: int, client_id: str) -> tuple[Command, Callable[..., Message]]:  # noqa: ARG001
    command = SyncGroup(
        request.group_id,
        request.member_id,
        request.generation_id,
        [(each.member_id, bytes(each.assignment)) for each in request.assignments],
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        protocol_required=version >= 5,
    )
    return command, _synced


def _synced(reply: SyncReply) -> Message:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )


def read_heartbeat(request: HeartbeatRequest, version: int, client_id: str) -> tuple[Command, Callable[..., Message]]:  # noqa: ARG001
    command = Heartbeat(request.group_id, request.member_id, request.generation_id, request.group_instance_id)
    return command, _heard


def _heard(reply: HeartbeatReply) -> Message:
    return HeartbeatResponse(error_code=reply.error)


def read_leave(request: LeaveGroupRequest, version: int, client_id: str) -> tuple[Command, Callable[..., Message]]:  # noqa: ARG001
    # A list of members exists from version 3 on.
    if version < 3:
        return LeaveGroup(request.group_id, [LeavingMember(request.member_id)]), _left_alone
    members = [LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in request.members]
    return LeaveGroup(request.group_id, members), _left


def _left_alone(reply: LeaveReply) -> Message:
    return LeaveGroupResponse(error_code=reply.top_level_error)


def _left(reply: LeaveReply) -> Message:
    return LeaveGroupResponse(
        error_code=reply.error,
        members=[
            LeaveGroupResponseMember(member_id=member_id, group_instance_id=instance_id, error_code=code)
            for member_id, instance_id, code in reply.members
        ],
    )


def read_commit(request: OffsetCommitRequest, version: int, client_id: str) -> tuple[Command, Callable[..., Message]]:  # noqa: ARG001
    topics = [
        (
            topic.name,
            [
                OffsetToCommit(
                    each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    command = CommitOffsets(
        request.group_id,
        topics,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        missing_group_is_not_found=version >= 9,
    )
    return command, _committed


def _committed(reply: CommitReply) -> Message:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition, error_code=code)
                    for partition, code in codes
                ],
            )
            for topic, codes in reply.topics
        ]
    )


def read_fetch(request: OffsetFetchRequest, version: int, client_id: str) -> tuple[Command, Callable[..., Message]]:  # noqa: ARG001
    # A list of groups exists from version 8 on; a consumer asks for its own group only.
    if version < 8:
        topics, group_id = request.topics, request.group_id
        respond: Callable[..., Message] = _fetched_alone
    else:
        (group,) = request.groups
        topics, group_id = group.topics, group.group_id
        respond = _fetched
    wanted = None if topics is None else [(topic.name, list(topic.partition_indexes)) for topic in topics]
    return FetchOffsets(group_id, wanted, request.require_stable), respond


def _fetched_alone(reply: FetchReply) -> Message:
    return OffsetFetchResponse(error_code=reply.error, topics=_fetched_topics(reply.topics))


def _fetched(reply: FetchReply) -> Message:
    group = OffsetFetchResponseGroup(
        group_id=reply.group_id or "", topics=_fetched_topics(reply.topics), error_code=reply.error
    )
    return OffsetFetchResponse(groups=[group])


def _fetched_topics(topics: list[tuple[str, list[FetchedOffset]]]) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    metadata=metadata,
                    error_code=code,
                )
                for partition, offset, leader_epoch, metadata, code in offsets
            ],
        )
        for topic, offsets in topics
    ]


READERS: dict[type[Message], Callable[[Any, int, str], tuple[Command, Callable[..., Message]]]] = {
    JoinGroupRequest: read_join,
    SyncGroupRequest: read_sync,
    HeartbeatRequest: read_heartbeat,
    LeaveGroupRequest: read_leave,
    OffsetCommitRequest: read_commit,
    OffsetFetchRequest: read_fetch,
}


def refusal(command: Command, code: ErrorCode) -> Reply:
    """What a node says that does not coordinate the group."""
    match command:
        case JoinGroup():
            return JoinReply(code)
        case SyncGroup():
            return SyncReply(code)
        case Heartbeat():
            return HeartbeatReply(code)
        case LeaveGroup():
            return LeaveReply(code)
        case CommitOffsets(topics=topics):
            return CommitReply([(topic, [(each.partition, code) for each in offsets]) for topic, offsets in topics])
        case FetchOffsets(group_id=group_id):
            return FetchReply(group_id, code)
        case _:
            raise AssertionError(command)
