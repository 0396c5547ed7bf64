"""DeleteRecords: move the start of partitions forward; -1 stands for the high watermark.

As in Kafka, of a partition that is named more than once the last offset counts. Each deletion is a write to disk, so
others are served between them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.cluster.topics import INTERNAL_TOPICS
from seamark.broker.log.partition import Partition
from seamark.broker.net.slices import lazily
from seamark.storage.errors import LogError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "DeleteRecords"
VERSIONS = "0-2"
HAS_LONG_ANSWERS = True
HIGH_WATERMARK = -1


def handle(node: Services, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update((each.partition_index, each.offset) for each in topic.partitions)

    def answer(found: tuple[str, dict[int, int]]) -> DeleteRecordsResponseTopic:
        name, offsets = found
        partitions = lazily(partial(_delete_before, node, context, name), offsets.items())
        return DeleteRecordsResponseTopic(name=name, partitions=partitions)

    return DeleteRecordsResponse(topics=lazily(answer, wanted.items()))


def _delete_before(
    node: Services, context: RequestContext, name: str, wanted: tuple[int, int]
) -> DeleteRecordsResponsePartition:
    index, offset = wanted
    partition = node.cluster.partition(name, index)
    answer = DeleteRecordsResponsePartition(partition_index=index, low_watermark=-1)
    answer.error_code = _refusal(node, name, partition, context)
    if not answer.error_code:
        assert partition is not None
        _delete(node, partition, offset, answer)
    return answer


def _refusal(node: Services, name: str, partition: Partition | None, context: RequestContext) -> ErrorCode:
    if not context.may(Operation.DELETE, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if partition.leader != node.id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    # Records of a log that is only compacted go by their keys.
    return ErrorCode.NONE if partition.topic.config.is_deleted_by_age else ErrorCode.POLICY_VIOLATION


def _delete(node: Services, partition: Partition, offset: int, answer: DeleteRecordsResponsePartition) -> None:
    if offset == HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return
    if not partition.is_open:
        answer.low_watermark = 0
        return
    try:
        answer.low_watermark = partition.log.delete_records_before(offset)
    except LogError as error:
        node.note_storage_failure(partition, error)
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return
    partition.epochs.forget_before(partition.log_start)
    partition.changed()


def refuse(request: DeleteRecordsRequest, version: int, code: ErrorCode) -> DeleteRecordsResponse:  # noqa: ARG001
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponseTopic(
                name=topic.name,
                partitions=[
                    DeleteRecordsResponsePartition(
                        partition_index=each.partition_index, low_watermark=-1, error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
