"""What the client knows of the cluster: brokers, topics, who leads what; and when to ask again.

A pure core: the shell tells it what happened and when (``now_ms``), and asks when a refresh is due. ``view`` is an
immutable snapshot that is replaced, never changed, so any thread may read it.

Rules: what is known is refreshed when it is older than ``metadata.max.age.ms``, or when an error showed it to be wrong,
and then no sooner than the retry backoff allows; one request is outstanding at a time. A partition's leader is not
replaced by one of an older epoch (a broker that lags behind answered), unless the topic's id says that the topic was
made anew (KIP-320, KIP-516). A topic that nobody wants any more is dropped at the next answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from seamark.client.timing import ExponentialBackoff
from seamark.counts import shortened
from seamark.readable_text import readable
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_TOPIC_ID = bytes(16)
NO_NODE = -1
NEVER = 2**62


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and where it is."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """For people; a host name may be any text that a broker sent."""
        host = readable(shortened(self.host, 300))
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.address} (node {self.id})"


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition; ``leader`` is -1 while it has none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic; ``error`` is NONE for one that can be used."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Mapping[int, PartitionView]
    error: ErrorCode = ErrorCode.NONE
    authorized_operations: int = -(1 << 31)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as of one answer; ``version`` grows with every change of the snapshot."""

    version: int = 0
    cluster_id: str | None = None
    controller_id: int = NO_NODE
    brokers: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)

    def partition(self, partition: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def leader(self, partition: TopicPartition) -> Node | None:
        """The broker that leads the partition, if it is known and reachable by address."""
        view = self.partition(partition)
        return None if view is None else self.brokers.get(view.leader)

    def leader_epoch(self, partition: TopicPartition) -> int:
        view = self.partition(partition)
        return -1 if view is None else view.leader_epoch

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        view = self.topics.get(topic)
        return () if view is None else tuple(TopicPartition(topic, index) for index in sorted(view.partitions))

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Usable topics with their number of partitions; the ones that are not known are left out."""
        return {
            name: len(self.topics[name].partitions)
            for name in topics
            if name in self.topics and not self.topics[name].error
        }

    def replica_racks(self, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
        """Racks of each partition's replicas, for rack-aware assignors; partitions without known racks are left out."""
        by_partition: dict[TopicPartition, frozenset[str]] = {}
        for name in topics:
            topic = self.topics.get(name)
            for partition in topic.partitions.values() if topic else ():
                nodes = (self.brokers.get(node_id) for node_id in partition.replicas)
                racks = frozenset(node.rack for node in nodes if node is not None and node.rack)
                if racks:
                    by_partition[TopicPartition(name, partition.index)] = racks
        return by_partition

    def topic_id(self, topic: str) -> bytes:
        """The topic's id, or zeros where the broker is too old to have told one."""
        view = self.topics.get(topic)
        return NO_TOPIC_ID if view is None else view.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, topic in self.topics.items() if topic.topic_id == topic_id), None)


class MetadataCache:
    """The snapshot, the topics that are wanted in it, and the refresh rule. Owned by the I/O thread."""

    def __init__(self, max_age_ms: int, backoff: ExponentialBackoff) -> None:
        self.view = ClusterView()
        self._max_age_ms = max_age_ms
        self.backoff = backoff
        self._wanted: set[str] = set()
        self._wants_all = False
        # Somebody saw that it is wrong; and: the last answer said itself that it will soon be another one.
        self._is_stale = True
        self._is_unsettled = False
        self._in_flight = False
        # What the request under way asks for; None stands for every topic.
        self._asked: frozenset[str] | None = None
        self._failures = 0
        self._not_before_ms = -NEVER
        self._refreshed_at_ms = -NEVER

    # what is wanted

    @property
    def topics_to_request(self) -> tuple[str, ...] | None:
        """What the next request asks for; None stands for every topic."""
        return None if self._wants_all else tuple(sorted(self._wanted))

    def want_topics(self, topics: Iterable[str], *, also_all: bool = False) -> bool:
        """Replace the wanted topics; a topic that is not in the view makes it stale. Says whether it did."""
        wanted = set(topics)
        is_new = (also_all and not self._wants_all) or any(name not in self.view.topics for name in wanted)
        self._wanted = wanted
        self._wants_all = also_all
        self._is_stale |= is_new
        return is_new

    def add_topics(self, topics: Iterable[str]) -> bool:
        """Want these topics too; says whether one of them is not in the view."""
        return self.want_topics(self._wanted.union(topics), also_all=self._wants_all)

    def drop_topics(self, topics: Iterable[str]) -> None:
        """Want these topics no longer: one that does not exist would be asked about again and again."""
        self._wanted.difference_update(topics)
        kept = {name: topic for name, topic in self.view.topics.items() if self._keeps(name)}
        self.view = replace(self.view, topics=MappingProxyType(kept), version=self.view.version + 1)
        self._is_unsettled = any(_needs_another_look(topic) for topic in kept.values())

    # when to ask

    def mark_stale(self) -> None:
        """An answer showed that what is known is wrong: ask as soon as the backoff allows."""
        self._is_stale = True

    @property
    def is_stale(self) -> bool:
        return self._is_stale or self._is_unsettled

    def refresh_due_ms(self) -> int:
        """When to send the next request; far away while one is outstanding."""
        if self._in_flight:
            return NEVER
        by_age = self._refreshed_at_ms + self._max_age_ms if self._refreshed_at_ms > -NEVER else -NEVER
        return max(self._not_before_ms, -NEVER if self.is_stale else by_age)

    def request_sent(self) -> None:
        self._in_flight = True
        self._asked = None if self._wants_all else frozenset(self._wanted)

    def request_failed(self, now_ms: int) -> None:
        self._in_flight = False
        self._is_stale = True
        self._failures += 1
        self._not_before_ms = now_ms + int(self.backoff.wait_ms(self._failures))

    def updated(self, response: MetadataResponse, now_ms: int, *, is_complete: bool = True) -> bool:
        """Take over an answer; says whether the snapshot changed.

        ``is_complete`` is false for an answer about a few topics asked for on the side: it refreshes those and does not
        count as the periodic refresh.
        """
        if is_complete:
            self._in_flight = False
        before = self.view
        topics = {name: topic for name, topic in before.topics.items() if not is_complete or self._keeps(name)}
        unsettled = False
        for answered in response.topics:
            if answered.name is None:
                continue
            merged = _merge(before.topics.get(answered.name), answered)
            unsettled |= _needs_another_look(merged)
            if merged.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and answered.name in topics:
                # Kept as an error, not as partitions: a deleted topic has no leaders.
                merged = replace(merged, partitions=MappingProxyType({}))
            topics[answered.name] = merged
        if is_complete and self._wants_all:
            present = {answered.name for answered in response.topics}
            topics = {name: topic for name, topic in topics.items() if name in present}
        changed = replace(
            before,
            cluster_id=response.cluster_id if response.cluster_id is not None else before.cluster_id,
            controller_id=response.controller_id,
            brokers=MappingProxyType({b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}),
            topics=MappingProxyType(topics),
        )
        if is_complete:
            self._settle(now_ms, unsettled)
        elif unsettled:
            self._is_unsettled = True
        if changed == before:
            return False
        self.view = replace(changed, version=before.version + 1)
        return True

    def _settle(self, now_ms: int, unsettled: bool) -> None:
        self._refreshed_at_ms = now_ms
        # An answer says nothing of topics that were wanted after it was asked for.
        self._is_stale = self._asked is not None and (self._wants_all or not self._wanted <= self._asked)
        self._is_unsettled = unsettled
        self._failures = self._failures + 1 if unsettled else 0
        # A wrong answer can be asked about again, but not in a tight loop.
        self._not_before_ms = now_ms + int(self.backoff.wait_ms(max(self._failures, 1)))

    def _keeps(self, name: str) -> bool:
        return self._wants_all or name in self._wanted


def _merge(known: TopicView | None, answered: MetadataResponseTopic) -> TopicView:
    assert answered.name is not None
    is_same = known is not None and (
        known.topic_id == answered.topic_id or NO_TOPIC_ID in (known.topic_id, answered.topic_id)
    )
    partitions: dict[int, PartitionView] = {}
    for partition in answered.partitions:
        old = known.partitions.get(partition.partition_index) if known is not None and is_same else None
        partitions[partition.partition_index] = _newer(old, partition)
    return TopicView(
        answered.name,
        answered.topic_id,
        answered.is_internal,
        MappingProxyType(partitions),
        error_code(answered.error_code),
        answered.topic_authorized_operations,
    )


def _newer(known: PartitionView | None, answered: MetadataResponsePartition) -> PartitionView:
    if known is not None and -1 < answered.leader_epoch < known.leader_epoch:
        return known
    return PartitionView(
        answered.partition_index,
        answered.leader_id,
        answered.leader_epoch,
        tuple(answered.replica_nodes),
        tuple(answered.isr_nodes),
        tuple(answered.offline_replicas),
        error_code(answered.error_code),
    )


def _needs_another_look(topic: TopicView) -> bool:
    """Whether the answer itself says that it will soon be another one."""
    if topic.error in (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return True
    return any(partition.leader == NO_NODE for partition in topic.partitions.values())
