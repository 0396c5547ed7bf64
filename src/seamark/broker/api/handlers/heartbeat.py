"""Heartbeat: a member is alive, and learns whether it has to rejoin (A28, D29)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.coordinator import commands
from seamark.coordinator.replies import HeartbeatReply
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "Heartbeat"
VERSIONS = "0-4"


def handle(node: Services, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse | None:
    if not context.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refuse(request, context.version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    context.finish = _respond
    command = commands.Heartbeat(request.group_id, request.member_id, request.generation_id, request.group_instance_id)
    node.groups.submit(command, context)
    return None


def _respond(reply: HeartbeatReply) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=reply.error)


def refuse(request: HeartbeatRequest, version: int, code: ErrorCode) -> HeartbeatResponse:  # noqa: ARG001
    return HeartbeatResponse(error_code=code)
