"""OffsetDelete: forget a group's offsets of partitions that it no longer subscribes to.

Topics that the client may not read and partitions that do not exist are refused first; the group is asked even if
nothing is left. A refusal of the group stands at the top and alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seamark.broker.operations import Operation, ResourceType
from seamark.coordinator.commands import DeleteOffsets
from seamark.coordinator.replies import DeleteOffsetsReply
from seamark.wire.error_codes import ErrorCode
from seamark.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from seamark.broker.context import RequestContext
    from seamark.broker.node import Node

API = "OffsetDelete"
VERSIONS = "0"

Results = dict[str, list[tuple[int, ErrorCode]]]


def handle(node: Node, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse | None:
    if not context.may(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return refuse(request, context.version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: Results = {}
    wanted: list[tuple[str, list[int]]] = []
    for topic in request.topics:
        partitions = [each.partition_index for each in topic.partitions]
        if not context.may(Operation.READ, ResourceType.TOPIC, topic.name):
            code, missing = ErrorCode.TOPIC_AUTHORIZATION_FAILED, partitions
        else:
            count = node.cluster.partition_count(topic.name) or 0
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            missing = [each for each in partitions if not 0 <= each < count]
        if missing:
            refused.setdefault(topic.name, []).extend((each, code) for each in missing)
        if len(missing) < len(partitions):
            unknown = set(missing)
            wanted.append((topic.name, [each for each in partitions if each not in unknown]))
    context.finish = partial(_respond, refused)
    node.groups.submit(DeleteOffsets(request.group_id, wanted), context)
    return None


def _respond(refused: Results, reply: DeleteOffsetsReply) -> OffsetDeleteResponse:
    if reply.error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=reply.error)
    for topic, codes in reply.topics:
        refused.setdefault(topic, []).extend(codes)
    return _response(refused)


def _response(results: Results) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=partition, error_code=code)
                    for partition, code in codes
                ],
            )
            for topic, codes in results.items()
        ]
    )


def refuse(request: OffsetDeleteRequest, version: int, code: ErrorCode) -> OffsetDeleteResponse:  # noqa: ARG001
    return OffsetDeleteResponse(error_code=code)
