"""ConsumerGroupDescribe: groups of the newer protocol, of which there are none here.

Every group is answered GROUP_ID_NOT_FOUND, as Kafka answers for a classic group; clients then ask by DescribeGroups.
A group of another coordinator is answered as there, and one that is named more than once is answered once.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.groups.questions import described
from seamark.broker.net.slices import counted_lazily
from seamark.coordinator.replies import DescribedGroup
from seamark.counts import shortened
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "ConsumerGroupDescribe"
VERSIONS = "0-1"

HAS_LONG_ANSWERS = True


def handle(
    node: Services, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    denied: list[DescribedGroup] = []
    allowed: list[str | None] = []
    for group_id in dict.fromkeys(request.group_ids):
        if context.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            denied.append(DescribedGroup(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    found = map(_as_no_consumer_group, described(node.groups, allowed, missing_is_error=True))
    return ConsumerGroupDescribeResponse(
        groups=counted_lazily(len(denied) + len(allowed), map(_answer, chain(denied, found)))
    )


def _as_no_consumer_group(group: DescribedGroup) -> DescribedGroup:
    if group.error is ErrorCode.NONE:
        sentence = f"Group {shortened(group.group_id or '')} is not a consumer group."
        return DescribedGroup(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND, error_message=sentence)
    return group


def _answer(group: DescribedGroup) -> ConsumerGroupDescribeResponseGroup:
    return ConsumerGroupDescribeResponseGroup(
        group_id=group.group_id or "", error_code=group.error, error_message=group.error_message
    )


def refuse(
    request: ConsumerGroupDescribeRequest,
    version: int,  # noqa: ARG001
    code: ErrorCode,
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[_answer(DescribedGroup(group_id, code)) for group_id in dict.fromkeys(request.group_ids)]
    )
