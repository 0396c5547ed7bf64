"""DescribeGroups: state and members of classic groups (D35); groups that the client may not see come first, with their
error. A group that is named more than once is answered once: its members may be thousands.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.groups.questions import described
from seamark.broker.net.slices import counted_lazily, lazily
from seamark.broker.security.operations import OPERATIONS_NOT_ASKED, authorized_operations
from seamark.coordinator.replies import DescribedGroup, DescribedMember
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "DescribeGroups"
VERSIONS = "0-6"

HAS_LONG_ANSWERS = True
_OPERATIONS = 3
_GROUP_NOT_FOUND = 6


def handle(
    node: Services, request: DescribeGroupsRequest, context: RequestContext
) -> Generator[None, None, DescribeGroupsResponse]:
    allowed: list[str | None] = []
    denied: list[DescribedGroup] = []
    for group_id in dict.fromkeys(request.groups):
        if context.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            denied.append(DescribedGroup(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        yield
    version = context.version
    found = described(node.groups, allowed, missing_is_error=version >= _GROUP_NOT_FOUND)
    groups = (_group(group, version) for group in chain(denied, found))
    if version >= _OPERATIONS and request.include_authorized_operations:
        groups = (_with_operations(group, context) for group in groups)
    return DescribeGroupsResponse(groups=counted_lazily(len(denied) + len(allowed), groups))


def _with_operations(group: DescribeGroupsResponseGroup, context: RequestContext) -> DescribeGroupsResponseGroup:
    if not group.error_code:
        group.authorized_operations = authorized_operations(
            context.connection.session, ResourceType.GROUP, group.group_id
        )
    return group


def _group(group: DescribedGroup, version: int) -> DescribeGroupsResponseGroup:
    return DescribeGroupsResponseGroup(
        error_code=group.error,
        error_message=group.error_message if version >= _GROUP_NOT_FOUND else None,
        group_id=group.group_id or "",
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=lazily(_member, group.members),
        authorized_operations=OPERATIONS_NOT_ASKED,
    )


def _member(member: DescribedMember) -> DescribeGroupsResponseMember:
    return DescribeGroupsResponseMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )


def refuse(request: DescribeGroupsRequest, version: int, code: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[_group(DescribedGroup(group_id, code), version) for group_id in dict.fromkeys(request.groups)]
    )
