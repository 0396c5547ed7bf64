"""DeleteGroups: remove groups without members, with their offsets; each group has its own result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.net.slices import lazily
from seamark.coordinator import commands
from seamark.coordinator.replies import DeleteGroupsReply
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "DeleteGroups"
VERSIONS = "0-2"
_GROUPS_PER_STEP = 100

Result = tuple[str | None, ErrorCode]


def handle(
    node: Services, request: DeleteGroupsRequest, context: RequestContext
) -> Generator[None, None, DeleteGroupsResponse | None]:
    allowed: list[str | None] = []
    denied: list[Result] = []
    for group_id in dict.fromkeys(request.groups_names):
        if context.may(Operation.DELETE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            denied.append((group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        yield
    if not allowed:
        return _response(denied)
    context.finish = _response
    yield from _Deletion(allowed, denied, context).steps(node)
    return None


class _Deletion:
    """Hands the groups to the coordinator some at a time, and answers when all have their results."""

    def __init__(self, group_ids: list[str | None], denied: list[Result], context: RequestContext) -> None:
        self._parts = [
            group_ids[start : start + _GROUPS_PER_STEP] for start in range(0, len(group_ids), _GROUPS_PER_STEP)
        ]
        self._left = len(self._parts)
        self._results: dict[str | None, ErrorCode] = dict.fromkeys(group_ids, ErrorCode.NONE)
        self._denied = denied
        self._context = context

    def steps(self, node: Services) -> Generator[None]:
        for part in self._parts:
            node.groups.submit(commands.DeleteGroups(part), self)
            yield

    def reply_value(self, reply: DeleteGroupsReply) -> None:
        self._results.update(reply.groups)
        self._left -= 1
        if not self._left:
            self._context.reply_value([*self._results.items(), *self._denied])


def _response(results: list[Result]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=lazily(_result, results))


def _result(result: Result) -> DeleteGroupsResponseResult:
    return DeleteGroupsResponseResult(group_id=result[0] or "", error_code=result[1])


def refuse(request: DeleteGroupsRequest, version: int, code: ErrorCode) -> DeleteGroupsResponse:  # noqa: ARG001
    return _response([(group_id, code) for group_id in dict.fromkeys(request.groups_names)])
