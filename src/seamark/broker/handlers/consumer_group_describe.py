"""ConsumerGroupDescribe: groups of the newer protocol, of which there are none here.

Every group is answered GROUP_ID_NOT_FOUND, as Kafka answers for a classic group; clients then ask by DescribeGroups.
A group of another coordinator is answered as there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seamark.broker.operations import Operation, ResourceType
from seamark.coordinator import commands
from seamark.coordinator.replies import DescribeReply
from seamark.wire.error_codes import ErrorCode
from seamark.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)

if TYPE_CHECKING:
    from seamark.broker.context import RequestContext
    from seamark.broker.node import Node

API = "ConsumerGroupDescribe"
VERSIONS = "0-1"

Answer = tuple[str, ErrorCode, str | None]


def handle(
    node: Node, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse | None:
    denied: list[Answer] = []
    allowed: list[str | None] = []
    for group_id in request.group_ids:
        if context.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            denied.append((group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, None))
    context.finish = partial(_respond, denied)
    node.groups.submit(commands.DescribeGroups(allowed, missing_is_error=True), context)
    return None


def _respond(denied: list[Answer], reply: DescribeReply) -> ConsumerGroupDescribeResponse:
    answers = list(denied)
    for group in reply.groups:
        name = group.group_id or ""
        if group.error is ErrorCode.NONE:
            answers.append((name, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} is not a consumer group."))
        else:
            answers.append((name, group.error, group.error_message))
    return _response(answers)


def _response(answers: list[Answer]) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[
            ConsumerGroupDescribeResponseGroup(group_id=group_id, error_code=code, error_message=message)
            for group_id, code, message in answers
        ]
    )


def refuse(
    request: ConsumerGroupDescribeRequest,
    version: int,  # noqa: ARG001
    code: ErrorCode,
) -> ConsumerGroupDescribeResponse:
    return _response([(group_id, code, None) for group_id in request.group_ids])
