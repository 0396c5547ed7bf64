"""DeleteGroups: remove groups without members, with their offsets; each group has its own result."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seamark.broker.operations import Operation, ResourceType
from seamark.coordinator import commands
from seamark.coordinator.replies import DeleteGroupsReply
from seamark.wire.error_codes import ErrorCode
from seamark.wire.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
)

if TYPE_CHECKING:
    from seamark.broker.context import RequestContext
    from seamark.broker.node import Node

API = "DeleteGroups"
VERSIONS = "0-2"


def handle(node: Node, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse | None:
    allowed: list[str | None] = []
    denied: list[tuple[str | None, ErrorCode]] = []
    for group_id in dict.fromkeys(request.groups_names):
        if context.may(Operation.DELETE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            denied.append((group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    context.finish = partial(_respond, denied)
    node.groups.submit(commands.DeleteGroups(allowed), context)
    return None


def _respond(denied: list[tuple[str | None, ErrorCode]], reply: DeleteGroupsReply) -> DeleteGroupsResponse:
    return _response([*reply.groups, *denied])


def _response(results: list[tuple[str | None, ErrorCode]]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeleteGroupsResponseResult(group_id=group_id or "", error_code=code) for group_id, code in results]
    )


def refuse(request: DeleteGroupsRequest, version: int, code: ErrorCode) -> DeleteGroupsResponse:  # noqa: ARG001
    return _response([(group_id, code) for group_id in dict.fromkeys(request.groups_names)])
