"""ListGroups: the groups that this node coordinates, and of those the ones that the client may see."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seamark.acls import CLUSTER_NAME, Operation, ResourceType
from seamark.broker.net.slices import lazily
from seamark.coordinator import commands
from seamark.coordinator.replies import ListedGroup, ListReply
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse, ListGroupsResponseGroup

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "ListGroups"
VERSIONS = "0-5"
HAS_LONG_ANSWERS = True


def handle(node: Services, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse | None:
    context.finish = partial(_respond, context)
    node.groups.submit(commands.ListGroups(request.states_filter, request.types_filter), context)
    return None


def _respond(context: RequestContext, reply: ListReply) -> ListGroupsResponse:
    # Who may look at the cluster sees every group; others see those they may describe.
    sees_all = context.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    groups = reply.groups
    if not sees_all:
        groups = [each for each in groups if context.may(Operation.DESCRIBE, ResourceType.GROUP, each.group_id)]
    return ListGroupsResponse(error_code=reply.error, groups=lazily(_listed, groups))


def _listed(group: ListedGroup) -> ListGroupsResponseGroup:
    return ListGroupsResponseGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state,
        group_type=group.group_type,
    )


def refuse(request: ListGroupsRequest, version: int, code: ErrorCode) -> ListGroupsResponse:  # noqa: ARG001
    return ListGroupsResponse(error_code=code)
