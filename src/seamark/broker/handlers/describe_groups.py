"""DescribeGroups: state and members of classic groups (D35); groups that the client may not see come first, with their
error.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seamark.broker.operations import OPERATIONS_NOT_ASKED, Operation, ResourceType, authorized_operations
from seamark.coordinator import commands
from seamark.coordinator.replies import DescribedGroup, DescribeReply
from seamark.wire.error_codes import ErrorCode
from seamark.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)

if TYPE_CHECKING:
    from seamark.broker.context import RequestContext
    from seamark.broker.node import Node

API = "DescribeGroups"
VERSIONS = "0-6"

_OPERATIONS = 3
_GROUP_NOT_FOUND = 6


def handle(node: Node, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse | None:
    allowed = [each for each in request.groups if context.may(Operation.DESCRIBE, ResourceType.GROUP, each)]
    denied = [
        DescribedGroup(each, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for each in request.groups
        if len(allowed) < len(request.groups) and each not in allowed
    ]
    with_operations = context.version >= _OPERATIONS and request.include_authorized_operations
    context.finish = partial(_respond, context, with_operations, denied)
    node.groups.submit(commands.DescribeGroups(allowed, context.version >= _GROUP_NOT_FOUND), context)
    return None


def _respond(
    context: RequestContext, with_operations: bool, denied: list[DescribedGroup], reply: DescribeReply
) -> DescribeGroupsResponse:
    response = _response([*denied, *reply.groups], context.version)
    if with_operations:
        session = context.connection.session
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = authorized_operations(session, ResourceType.GROUP, group.group_id)
    return response


def _response(groups: list[DescribedGroup], version: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[
            DescribeGroupsResponseGroup(
                error_code=group.error,
                error_message=group.error_message if version >= _GROUP_NOT_FOUND else None,
                group_id=group.group_id or "",
                group_state=group.state,
                protocol_type=group.protocol_type,
                protocol_data=group.protocol,
                members=[
                    DescribeGroupsResponseMember(
                        member_id=member.member_id,
                        group_instance_id=member.instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        member_metadata=member.metadata,
                        member_assignment=member.assignment,
                    )
                    for member in group.members
                ],
                authorized_operations=OPERATIONS_NOT_ASKED,
            )
            for group in groups
        ]
    )


def refuse(request: DescribeGroupsRequest, version: int, code: ErrorCode) -> DescribeGroupsResponse:
    return _response([DescribedGroup(group_id, code) for group_id in request.groups], version)
