"""What to ask of which node next: leaders, pauses, back-offs, and how many bytes may wait for the caller (K3, K6, K9).

A pure core. A partition is *hungry* when it may be fetched and less than four full fetches of it wait. A node is asked
when it has no request outstanding, and at least half of its fetchable partitions are hungry: the requests of a busy
consumer then stay few and large. Nothing is asked while as many bytes as ``prefetch.max.bytes`` wait for the caller.

Owner: the I/O thread. Of a partition's state the caller's thread writes only ``taken_bytes`` and removes chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from seamark.client.cluster_view import ClusterView
from seamark.client.core.assignment_state import Position
from seamark.client.fetch.chunks import Chunk
from seamark.client.fetch.sessions import FetchTarget
from seamark.topic_partition import TopicPartition

# One that the caller works on, and three that wait: enough that a caller who computes without a pause, and lets the I/O
# thread in only now and then, does not run dry.
_FETCHES_AHEAD = 4
_NO_REPLICA = -1


class PartitionFetch:
    """One partition that is being fetched under one term. A seek or a new assignment makes another object."""

    __slots__ = (
        "arrived_bytes",
        "chunks",
        "failures",
        "has_failed",
        "high_watermark",
        "is_alive",
        "is_paused",
        "last_stable_offset",
        "leader_epoch",
        "log_start",
        "next_offset",
        "partition",
        "position",
        "replica",
        "replica_until_ms",
        "retry_at_ms",
        "taken_bytes",
        "term",
    )

    def __init__(self, partition: TopicPartition, position: Position, term: int) -> None:
        self.partition = partition
        self.term = term
        self.is_alive = True
        self.is_paused = False
        # Where the next fetch starts: behind everything that has arrived.
        self.next_offset = position.offset
        # Behind what the caller has taken; written by the caller's thread.
        self.position = position
        self.retry_at_ms = 0
        # Answers in a row that led nowhere.
        self.failures = 0
        # A failure stands at the end of the chunks, or bytes that lead no further (a damaged batch): nothing is asked
        # until the caller has heard of it.
        self.has_failed = False
        self.chunks: deque[Chunk] = deque()
        self.arrived_bytes = 0
        self.taken_bytes = 0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start = -1
        # The replica that the leader told us to read from, and for how long that holds (KIP-392).
        self.replica = _NO_REPLICA
        self.replica_until_ms = 0

    @property
    def queued_bytes(self) -> int:
        return self.arrived_bytes - self.taken_bytes

    @property
    def may_be_fetched(self) -> bool:
        return not self.is_paused and not self.has_failed

    def forget_replica(self) -> bool:
        """Read from the leader again; says whether another replica was read from."""
        had_one = self.replica != _NO_REPLICA
        self.replica = _NO_REPLICA
        return had_one


class NodeWork(NamedTuple):
    """A request to be made: what the node is to send data for, and how much altogether."""

    node_id: int
    targets: dict[TopicPartition, FetchTarget]
    max_bytes: int


class FetchPlanning:
    def __init__(self, *, budget_bytes: int, partition_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._partition_bytes = partition_bytes
        self.partitions: dict[TopicPartition, PartitionFetch] = {}
        # Nodes with a request outstanding (K9, K15).
        self.pending: set[int] = set()
        # Partitions whose leader was not known at the last plan.
        self.leaderless: list[TopicPartition] = []

    def __iter__(self) -> Iterator[PartitionFetch]:
        return iter(self.partitions.values())

    def start(self, partition: TopicPartition, position: Position, term: int) -> PartitionFetch:
        self.stop([partition])
        made = self.partitions[partition] = PartitionFetch(partition, position, term)
        return made

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            state = self.partitions.pop(partition, None)
            if state is not None:
                state.is_alive = False
                state.chunks.clear()

    @property
    def queued_bytes(self) -> int:
        return sum(state.queued_bytes for state in self.partitions.values())

    def plan(self, view: ClusterView, now_ms: int) -> list[NodeWork]:
        """The requests to send now, at most one per node (K6); partitions without a leader are in ``leaderless``."""
        self.leaderless = []
        room = self._budget_bytes - self.queued_bytes
        if room <= 0:
            return []
        hungry: dict[int, list[PartitionFetch]] = {}
        fetchable: dict[int, int] = {}
        for state in self.partitions.values():
            if not state.may_be_fetched:
                continue
            node_id = self._node_of(state, view, now_ms)
            if node_id is None:
                self.leaderless.append(state.partition)
                continue
            if state.retry_at_ms > now_ms or node_id in self.pending:
                continue
            fetchable[node_id] = fetchable.get(node_id, 0) + 1
            if state.queued_bytes < _FETCHES_AHEAD * self._partition_bytes:
                hungry.setdefault(node_id, []).append(state)
        return [
            NodeWork(node_id, {state.partition: self._ask(state, view) for state in states}, room)
            for node_id, states in hungry.items()
            if 2 * len(states) >= fetchable[node_id]
        ]

    def _node_of(self, state: PartitionFetch, view: ClusterView, now_ms: int) -> int | None:
        if state.replica != _NO_REPLICA:
            if now_ms < state.replica_until_ms and state.replica in view.brokers:
                return state.replica
            state.forget_replica()
        leader = view.leader(state.partition)
        return None if leader is None else leader.id

    def _ask(self, state: PartitionFetch, view: ClusterView) -> FetchTarget:
        return FetchTarget(
            view.topic_id(state.partition.topic),
            state.next_offset,
            view.leader_epoch(state.partition),
            self._partition_bytes,
        )

    def next_retry_ms(self, now_ms: int) -> int | None:
        """When a partition that backs off may be asked for again."""
        waiting = (state.retry_at_ms for state in self.partitions.values() if state.may_be_fetched)
        return min((at for at in waiting if at > now_ms), default=None)
