"""OffsetCommit: the group must be one that the client may read, and so must each topic (L4); the rest is the
coordinator's (F26).

Version 0 is kept in ZooKeeper where there is one, and not served elsewhere (``groups.zookeeper``).

The answer names refused partitions before those that reached the group, as Kafka's does, where a topic has both. A
commit is stamped with the broker's time, or in v1, as brokers before 4.0 did, with the time that it brings along.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from seamark.acls import Operation, ResourceType
from seamark.broker.groups.zookeeper import IN_ZOOKEEPER, commit_to_zookeeper
from seamark.broker.net.slices import lazily
from seamark.coordinator.commands import CommitOffsets
from seamark.coordinator.replies import CommitReply
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "OffsetCommit"
VERSIONS = "1-9"
VERSIONS_WITH_ZOOKEEPER = "0-9"

_CLIENT_TIMES = 1
_GROUP_NOT_FOUND = 9
_NO_TIME = -1
_PARTITIONS_PER_STEP = 1000
_NONE = ErrorCode.NONE
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_REFUSED_BEFORE_THE_GROUP = frozenset({_DENIED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

Results = list[tuple[str, list[tuple[int, ErrorCode]]]]


def handle(
    node: Services, request: OffsetCommitRequest, context: RequestContext
) -> Generator[None, None, OffsetCommitResponse | None]:
    topics = request.topics
    denied: Results = []
    if not context.connection.session.is_unrestricted:
        if not context.may(Operation.READ, ResourceType.GROUP, request.group_id):
            return refuse(request, context.version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        topics = []
        for topic in request.topics:
            if context.may(Operation.READ, ResourceType.TOPIC, topic.name):
                topics.append(topic)
            else:
                denied.append((topic.name, [(each.partition_index, _DENIED) for each in topic.partitions]))
            yield
        if denied and not topics:
            return _respond(denied, CommitReply())
    context.finish = partial(_respond, denied) if denied else respond
    if context.version == IN_ZOOKEEPER:
        commit_to_zookeeper(node, request.group_id, topics, context.reply_value)
        return None
    # Plain tuples do for the coordinator, and making named ones would cost as much as the rest of this.
    wanted: Any = []
    for topic in topics:
        partitions = topic.partitions
        offsets: list[tuple[int, int, int, str | None]] = []
        for start in range(0, len(partitions), _PARTITIONS_PER_STEP):
            offsets += [
                (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata)
                for each in partitions[start : start + _PARTITIONS_PER_STEP]
            ]
            yield
        # Kafka's answer does not mention a topic without partitions either.
        if partitions:
            wanted.append((topic.name, offsets))
    command = CommitOffsets(
        request.group_id,
        wanted,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        context.version >= _GROUP_NOT_FOUND,
        _client_times(topics) if context.version == _CLIENT_TIMES else None,
    )
    node.groups.submit(command, context)
    if context.connection.session.is_unrestricted:
        context.connection.commits.note(context, request, command, respond)
    return None


def _client_times(topics: list[OffsetCommitRequestTopic]) -> dict[tuple[str, int], int] | None:
    """The times that the client gave; None if it gave none."""
    return {
        (topic.name, each.partition_index): each.commit_timestamp
        for topic in topics
        for each in topic.partitions
        if each.commit_timestamp != _NO_TIME
    } or None


def respond(reply: CommitReply) -> OffsetCommitResponse:
    for _, codes in reply.topics:
        for _, code in codes:
            if code is not _NONE and code in _REFUSED_BEFORE_THE_GROUP:
                return _respond([], reply)
    return _response(reply.topics)


def _respond(denied: Results, reply: CommitReply) -> OffsetCommitResponse:
    """Put what never reached the group first; of a topic that stands twice the results go together."""
    first: dict[str, list[tuple[int, ErrorCode]]] = {}
    rest: Results = []
    for topic, codes in (*denied, *reply.topics):
        early = [each for each in codes if each[1] in _REFUSED_BEFORE_THE_GROUP]
        if early:
            first.setdefault(topic, []).extend(early)
        if len(early) < len(codes):
            rest.append((topic, [each for each in codes if each[1] not in _REFUSED_BEFORE_THE_GROUP]))
    merged: Results = list(first.items())
    for topic, codes in rest:
        if topic in first:
            first[topic].extend(codes)
        else:
            merged.append((topic, codes))
    return _response(merged)


def _response(results: Results) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=lazily(_topic, results))


def _topic(result: tuple[str, list[tuple[int, ErrorCode]]]) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(name=result[0], partitions=lazily(_partition, result[1]))


def _partition(result: tuple[int, ErrorCode]) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=result[0], error_code=result[1])


def refuse(request: OffsetCommitRequest, version: int, code: ErrorCode) -> OffsetCommitResponse:  # noqa: ARG001
    return OffsetCommitResponse(topics=lazily(partial(_refused, code), request.topics))


def _refused(code: ErrorCode, topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name, partitions=lazily(lambda each: _partition((each.partition_index, code)), topic.partitions)
    )
