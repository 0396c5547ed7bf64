"""What a node is made of beside its listener: groups, metrics and the like, each told of starts, stops and leadership.

``node_parts`` is the one list of them. A part is made with its node, before the node listens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.broker.log.partition import Partition
    from seamark.broker.node import Node


class NodePart:
    """All calls come on the event loop's thread; the defaults do nothing."""

    def start(self) -> None:
        """The node is about to listen; ``became_leader`` follows for every partition that it leads."""

    def stop(self) -> None:
        """The node no longer listens and its connections are closed; it leads nothing any more."""

    def became_leader(self, partition: Partition) -> None:
        """The node leads the partition from now on, in ``partition.leader_epoch``."""

    def lost_leadership(self, partition: Partition) -> None:
        """Another node leads the partition, or none, or the partition is gone."""

    def topics_deleted(self, names: Sequence[str]) -> None:
        """The topics are gone (after ``lost_leadership`` of their partitions)."""


def node_parts(node: Node) -> list[NodePart]:
    from seamark.broker.groups.runtime import GroupRuntime

    node.groups = GroupRuntime(node)
    return [node.groups]
