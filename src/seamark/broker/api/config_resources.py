"""What a configuration request names: a topic by its name, a node by its id, all nodes by the empty name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.broker.refusals import RequestRefused
from seamark.wire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from seamark.broker.api.services import Services

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


def broker_named(node: Services, name: str) -> int | None:
    """Return the id that ``name`` gives, None for all nodes; a node answers for itself only."""
    if name == "":
        return None
    if not name.isascii() or not name.isdigit():
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"a broker resource is named by its node id, got {name!r}")
    # With leading zeros one node would have any number of names.
    if name != str(node.id):
        raise RequestRefused(
            ErrorCode.INVALID_REQUEST, f"this is node {node.id}: send the request for node {name} to that node"
        )
    return node.id
