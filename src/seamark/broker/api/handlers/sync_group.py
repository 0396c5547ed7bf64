"""SyncGroup: the leader's assignment for everyone, and each member's own part of it (A27, D28)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.coordinator import commands
from seamark.coordinator.replies import SyncReply
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "SyncGroup"
VERSIONS = "0-5"

_PROTOCOL_REQUIRED = 5


def handle(node: Services, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse | None:
    if not context.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refuse(request, context.version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    context.finish = _respond
    command = commands.SyncGroup(
        request.group_id,
        request.member_id,
        request.generation_id,
        [(each.member_id, bytes(each.assignment)) for each in request.assignments],
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        protocol_required=context.version >= _PROTOCOL_REQUIRED,
    )
    node.groups.submit(command, context)
    return None


def _respond(reply: SyncReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )


def refuse(request: SyncGroupRequest, version: int, code: ErrorCode) -> SyncGroupResponse:  # noqa: ARG001
    return SyncGroupResponse(error_code=code)
