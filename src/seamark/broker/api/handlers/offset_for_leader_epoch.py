"""OffsetForLeaderEpoch: where a leader epoch ends, so that a consumer finds out what it read and is no longer there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.api.fetch_reading import epoch_error
from seamark.broker.net.slices import lazily
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "OffsetForLeaderEpoch"
VERSIONS = "2-4"
MAX_ELEMENTS = 1 << 17


def handle(
    node: Services, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    def answer(topic: OffsetForLeaderEpochRequestTopic) -> OffsetForLeaderEpochResponseTopic:
        def refused(wanted: OffsetForLeaderEpochRequestPartition) -> OffsetForLeaderEpochResponsePartition:
            return _failed(wanted.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

        is_allowed = context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        look_up = partial(_look_up, node, topic.topic) if is_allowed else refused
        return OffsetForLeaderEpochResponseTopic(topic=topic.topic, partitions=lazily(look_up, topic.partitions))

    return OffsetForLeaderEpochResponse(topics=lazily(answer, request.topics))


def _look_up(
    node: Services, topic: str, wanted: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponsePartition:
    partition = node.cluster.partition(topic, wanted.partition)
    if partition is None:
        return _failed(wanted.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    code = epoch_error(partition, wanted.current_leader_epoch)
    if code:
        return _failed(wanted.partition, code)
    if partition.leader != node.id:
        return _failed(wanted.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    epoch, end_offset = partition.epochs.end_of(wanted.leader_epoch, partition.log_end)
    return OffsetForLeaderEpochResponsePartition(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)


def _failed(index: int, code: ErrorCode) -> OffsetForLeaderEpochResponsePartition:
    return OffsetForLeaderEpochResponsePartition(partition=index, error_code=code)


def refuse(
    request: OffsetForLeaderEpochRequest,
    version: int,  # noqa: ARG001
    code: ErrorCode,
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponseTopic(
                topic=topic.topic, partitions=[_failed(each.partition, code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )
