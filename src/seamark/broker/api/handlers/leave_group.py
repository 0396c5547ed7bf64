"""LeaveGroup: members go for good; one with its error at the top before v3, then a list with an error each (D32)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seamark.broker.security.operations import Operation, ResourceType
from seamark.coordinator import commands
from seamark.coordinator.replies import LeaveReply
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, LeaveGroupResponseMember

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "LeaveGroup"
VERSIONS = "0-5"

_MEMBER_LIST = 3


def handle(node: Services, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse | None:
    if not context.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refuse(request, context.version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if context.version < _MEMBER_LIST:
        members = [commands.LeavingMember(request.member_id)]
    else:
        members = [
            commands.LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in request.members
        ]
    context.finish = partial(_respond, context.version)
    node.groups.submit(commands.LeaveGroup(request.group_id, members), context)
    return None


def _respond(version: int, reply: LeaveReply) -> LeaveGroupResponse:
    if version < _MEMBER_LIST:
        return LeaveGroupResponse(error_code=reply.top_level_error)
    return LeaveGroupResponse(
        error_code=reply.error,
        members=[
            LeaveGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=member.error
            )
            for member in reply.members
        ],
    )


def refuse(request: LeaveGroupRequest, version: int, code: ErrorCode) -> LeaveGroupResponse:  # noqa: ARG001
    return LeaveGroupResponse(error_code=code)
