"""FindCoordinator: which node coordinates a group (B12 to B20).

Who may not describe the group learns nothing and causes nothing: the check stands before everything else. A first
question makes the offsets topic and is answered COORDINATOR_NOT_AVAILABLE, as Kafka does; the client asks again. The
address is that of the listener by which the client came, never another one. Transactions are not served: their ids
are refused at once, so that no client waits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from seamark.acls import Operation, ResourceType
from seamark.broker.log.partition import NO_LEADER
from seamark.broker.net.slices import lazily
from seamark.broker.refusals import RequestRefused
from seamark.counts import shortened
from seamark.storage.errors import StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "FindCoordinator"
VERSIONS = "0-6"

GROUP, TRANSACTION, SHARE = 0, 1, 2
_MANY_KEYS = 4
_SHARE_KEYS = 6

NO_TRANSACTIONS = "This broker does not serve transactions yet: no transactional.id can be used."


class Coordinator(NamedTuple):
    """A22: without a node the id and port are -1 and the host is empty."""

    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1
    message: str | None = None


_NOT_AVAILABLE = Coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE, message="The coordinator is not available yet.")


def handle(node: Services, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    version = context.version
    if request.key_type not in (GROUP, TRANSACTION, SHARE):
        unknown = Coordinator(ErrorCode.INVALID_REQUEST, message=f"There is no key type {request.key_type}.")
        return _one(unknown) if version < _MANY_KEYS else _many(lambda _: unknown, request.coordinator_keys)
    if version < _MANY_KEYS:
        return _one(find(node, context, request.key_type, request.key))
    return _many(partial(find, node, context, request.key_type), request.coordinator_keys)


def find(node: Services, context: RequestContext, key_type: int, key: str) -> Coordinator:
    """Return the coordinator of one key, or why there is none."""
    if key_type == TRANSACTION:
        return Coordinator(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message=NO_TRANSACTIONS)
    if key_type == SHARE:
        # Before v6 there are no such keys; since then they name a partition of a share group, and there are none.
        return Coordinator(ErrorCode.INVALID_REQUEST)
    if not context.may(Operation.DESCRIBE, ResourceType.GROUP, key):
        return Coordinator(
            ErrorCode.GROUP_AUTHORIZATION_FAILED, message=f"You may not describe group {shortened(key)}."
        )
    cluster = node.cluster
    topic = cluster.offsets_topic()
    if topic is None:
        try:
            cluster.create_offsets_topic()
        except (RequestRefused, StorageFailed):
            # Whatever stood in the way, the client can only ask again.
            return _NOT_AVAILABLE
        return _NOT_AVAILABLE
    partition = topic.partition(node.groups.partition_for(key))
    if partition is None or partition.leader == NO_LEADER:
        return _NOT_AVAILABLE
    leader = cluster.nodes[partition.leader]
    if not leader.is_running or all(each.name != context.connection.listener.name for each in leader.listeners):
        return _NOT_AVAILABLE
    address = leader.address_for(context.connection)
    return Coordinator(ErrorCode.NONE, leader.id, address.host, address.port)


def _one(found: Coordinator) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=found.error,
        # Kafka's answers of these versions carry the name of the code where there is nothing else to say.
        error_message=found.message or found.error.name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _many(find_one: Callable[[str], Coordinator], keys: list[str]) -> FindCoordinatorResponse:
    def answer(key: str) -> FindCoordinatorResponseCoordinator:
        found = find_one(key)
        return FindCoordinatorResponseCoordinator(
            key=key,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
            error_code=found.error,
            error_message=found.message or "",
        )

    return FindCoordinatorResponse(coordinators=lazily(answer, keys))


def refuse(request: FindCoordinatorRequest, version: int, code: ErrorCode) -> FindCoordinatorResponse:
    if version < _MANY_KEYS:
        return _one(Coordinator(code))
    return _many(lambda _: Coordinator(code), request.coordinator_keys)
