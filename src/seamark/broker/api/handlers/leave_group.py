"""LeaveGroup: members go for good; one with its error at the top before v3, then a list with an error each (D32)."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.net.slices import lazily
from seamark.coordinator import commands
from seamark.coordinator.replies import LeaveReply, LeftMember
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, LeaveGroupResponseMember

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "LeaveGroup"
VERSIONS = "0-5"

_MEMBER_LIST = 3


def handle(
    node: Services, request: LeaveGroupRequest, context: RequestContext
) -> Generator[None, None, LeaveGroupResponse | None]:
    if not context.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refuse(request, context.version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    members: list[commands.LeavingMember] = []
    if context.version < _MEMBER_LIST:
        members.append(commands.LeavingMember(request.member_id))
    for each in request.members:
        members.append(commands.LeavingMember(each.member_id, each.group_instance_id, each.reason))
        yield
    context.finish = partial(_respond, context.version)
    node.groups.submit(commands.LeaveGroup(request.group_id, members), context)
    return None


def _respond(version: int, reply: LeaveReply) -> LeaveGroupResponse:
    if version < _MEMBER_LIST:
        return LeaveGroupResponse(error_code=reply.top_level_error)
    return LeaveGroupResponse(error_code=reply.error, members=lazily(_member, reply.members))


def _member(member: LeftMember) -> LeaveGroupResponseMember:
    return LeaveGroupResponseMember(
        member_id=member.member_id, group_instance_id=member.instance_id, error_code=member.error
    )


def refuse(request: LeaveGroupRequest, version: int, code: ErrorCode) -> LeaveGroupResponse:  # noqa: ARG001
    return LeaveGroupResponse(error_code=code)
