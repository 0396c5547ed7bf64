"""Where a partition went: what an answer NOT_LEADER_OR_FOLLOWER tells a client, so that it need not ask for
metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from seamark.broker.log.partition import NO_LEADER, Partition

if TYPE_CHECKING:
    from seamark.addresses import Address
    from seamark.broker.api.services import Services
    from seamark.broker.cluster.nodes import ClusterNode
    from seamark.broker.net.context import RequestContext


def current_leader_of(partition: Partition) -> dict[str, int]:
    """Return the fields of a ``current_leader`` struct."""
    return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}


def endpoints_of(
    node: Services, partitions: Iterable[Partition], context: RequestContext
) -> list[tuple[ClusterNode, Address]]:
    """Return the leaders of partitions, each once, with their addresses for this client."""
    leaders = sorted({partition.leader for partition in partitions} - {NO_LEADER})
    nodes = [node.cluster.nodes[leader] for leader in leaders]
    return [(leader, leader.address_for(context.connection)) for leader in nodes]
