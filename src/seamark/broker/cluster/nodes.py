"""A node as the cluster knows it, and the parts of a node that the cluster tells of leadership and deleted topics.

``seamark.broker.node.Node`` is one; nothing here or above the cluster needs more of it than this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from seamark.addresses import Address
from seamark.broker.log.partition import Partition
from seamark.broker.net.listener import Listener


class NodePart:
    """What a node is made of beside its listeners, such as its groups. It is made with its node, before that listens.

    All calls come on the event loop's thread; the defaults do nothing.
    """

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


class Caller(Protocol):
    """A connection, as far as it decides by which address its client reaches a node."""

    @property
    def listener(self) -> Listener: ...

    @property
    def local_host(self) -> str: ...


class ClusterNode(Protocol):
    """One of ``Cluster.nodes``."""

    @property
    def id(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def rack(self) -> str | None: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def listeners(self) -> Sequence[Listener]: ...

    @property
    def parts(self) -> Sequence[NodePart]: ...

    def address_for(self, connection: Caller) -> Address: ...
