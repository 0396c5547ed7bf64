"""Which node leads a partition: spread when it is made, moved when nodes stop, brought home when they are back.

Replicas go round the nodes from a start that depends on the topic's name alone, so every run is alike. All nodes
share one store: there is nothing to copy, and a partition is without a leader only while no node runs. A running
replica is preferred; if none runs, the next running node takes over and stands in for the replicas. Each change of
leader begins a new leader epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

from seamark.broker.cluster.nodes import ClusterNode
from seamark.broker.cluster.topics import OFFSETS_TOPIC
from seamark.broker.log.partition import NO_LEADER, Partition


def spread(topic: str, first: int, count: int, node_ids: Sequence[int], replication_factor: int) -> list[list[int]]:
    """Return the replicas of ``count`` partitions from index ``first`` on, the preferred leader first in each.

    >>> spread("__consumer_offsets", 0, 4, [0, 1, 2], 2)
    [[0, 1], [1, 2], [2, 0], [0, 1]]
    """
    start = 0 if topic == OFFSETS_TOPIC else crc32(topic.encode())
    size = len(node_ids)
    return [
        [node_ids[(start + index + step) % size] for step in range(replication_factor)]
        for index in range(first, first + count)
    ]


def choose_leader(partition: Partition, running: Sequence[int]) -> int:
    """Return the node that should lead: the present leader while it runs, else the first running replica."""
    if partition.leader in running:
        return partition.leader
    for node_id in partition.replicas:
        if node_id in running:
            return node_id
    if not running:
        return NO_LEADER
    preferred = partition.replicas[0]
    return min(running, key=lambda node_id: (node_id < preferred, node_id))


class Leadership:
    """Applies changes and tells the nodes of them, those that lose first."""

    def __init__(self, nodes: Sequence[ClusterNode]) -> None:
        self._nodes = nodes

    @property
    def running(self) -> list[int]:
        return [node.id for node in self._nodes if node.is_running]

    def settle(self, partitions: Iterable[Partition]) -> int:
        """Give each partition the leader it should have; return how many changed."""
        running = self.running
        changed = 0
        for partition in partitions:
            leader = choose_leader(partition, running)
            self._refresh_replicas(partition, leader, running)
            if leader != partition.leader:
                self._move(partition, leader)
                changed += 1
        return changed

    def bring_home(self, partitions: Iterable[Partition]) -> int:
        """Move partitions back to their preferred leaders, where those run."""
        running = self.running
        moves = [(p, p.replicas[0]) for p in partitions if p.replicas[0] in running and p.leader != p.replicas[0]]
        for partition, leader in moves:
            self._refresh_replicas(partition, leader, running)
            self._move(partition, leader)
        return len(moves)

    def move(self, partition: Partition, leader: int) -> None:
        """Make a running node the leader, replica or not; one that leads already begins a new epoch."""
        if leader not in partition.replicas:
            partition.replicas = [*partition.replicas[:-1], leader]
            partition.topic.changed()
        self._refresh_replicas(partition, leader, self.running)
        self._move(partition, leader)

    def give_up(self, partition: Partition) -> None:
        """The partition is about to be deleted."""
        if partition.leader != NO_LEADER:
            self._tell_lost(partition)
        partition.leader = NO_LEADER

    def _refresh_replicas(self, partition: Partition, leader: int, running: Sequence[int]) -> None:
        in_sync = [node_id for node_id in partition.replicas if node_id in running]
        if leader != NO_LEADER and leader not in in_sync:
            in_sync.append(leader)
        partition.running_replicas = in_sync

    def _move(self, partition: Partition, leader: int) -> None:
        if partition.leader != NO_LEADER:
            self._tell_lost(partition)
        partition.leader = leader
        partition.leader_epoch += 1
        partition.topic.changed()
        if leader != NO_LEADER:
            partition.epochs.begin(partition.leader_epoch, partition.log_end)
            for part in self._nodes[leader].parts:
                part.became_leader(partition)
        partition.changed()

    def _tell_lost(self, partition: Partition) -> None:
        for part in self._nodes[partition.leader].parts:
            part.lost_leadership(partition)
