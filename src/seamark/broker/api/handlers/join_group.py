"""JoinGroup: enter a rebalance and wait until it has its members (A23 to A26).

What the version says about the client goes into the command: from v4 a first-time joiner can come back with the id it
is given, from v9 a leader can skip the assignment (A24). The protocol name of a refusal is null where the version has
nulls, else empty.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.net.slices import lazily
from seamark.broker.security.sessions import ANONYMOUS
from seamark.coordinator import commands
from seamark.coordinator.replies import JoinedMember, JoinReply
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "JoinGroup"
VERSIONS = "0-9"
HAS_LONG_ANSWERS = True

_KNOWN_MEMBER_ID = 4
_NULLABLE_PROTOCOL = 7
_SKIP_ASSIGNMENT = 9


def handle(node: Services, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse | None:
    version = context.version
    if not context.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refuse(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    context.finish = partial(_respond, version)
    principal = context.connection.session.principal
    command = commands.JoinGroup(
        request.group_id,
        request.member_id,
        request.session_timeout_ms,
        request.rebalance_timeout_ms if version > 0 else request.session_timeout_ms,
        request.protocol_type,
        [(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols],
        request.group_instance_id,
        require_known_member_id=version >= _KNOWN_MEMBER_ID,
        supports_skip_assignment=version >= _SKIP_ASSIGNMENT,
        client_id=context.client_id,
        client_host=context.client_host,
        reason=request.reason,
        principal="" if principal == ANONYMOUS else principal,
    )
    node.groups.submit(command, context)
    return None


def _respond(version: int, reply: JoinReply) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=_protocol_name(version, reply.protocol_name),
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=lazily(_member, reply.members),
    )


def _member(member: JoinedMember) -> JoinGroupResponseMember:
    return JoinGroupResponseMember(
        member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
    )


def _protocol_name(version: int, name: str | None) -> str | None:
    if version >= _NULLABLE_PROTOCOL:
        return name or None
    return name or ""


def refuse(request: JoinGroupRequest, version: int, code: ErrorCode) -> JoinGroupResponse:  # noqa: ARG001
    return JoinGroupResponse(error_code=code, protocol_name=_protocol_name(version, None))
