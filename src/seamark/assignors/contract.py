"""What an assignor is given, what it answers, and the contract that makes one pluggable.

The group's leader runs ``assign`` once per rebalance with the subscriptions of all members; every member runs
``subscription_user_data`` before it joins and ``on_assignment`` after it has synced (KIP-429, KIP-792, KIP-881).

Invariant of the contract: ``assign`` reads nothing but its arguments. The order of ``members`` must not change the
answer, because two members that lead in turn are given it in different orders. Everything an assignor remembers between
rebalances is remembered by ``on_assignment`` and travels to the leader in the subscription.

A custom assignor is a subclass with a ``name`` of its own:

    >>> class FirstTakesAll(Assignor):
    ...     name = "first-takes-all"
    ...     def assign(self, cluster, members):
    ...         first = min(member.member_id for member in members)
    ...         everything = tuple(cluster.partitions_of(subscribed_topics(members)))
    ...         return {m.member_id: MemberAssignment(everything if m.member_id == first else ()) for m in members}
    >>> answer = FirstTakesAll().assign(
    ...     ClusterTopics({"orders": 2}), [MemberSubscription("b", ("orders",)), MemberSubscription("a", ("orders",))]
    ... )
    >>> [str(partition) for partition in answer["a"].partitions]
    ['orders-0', 'orders-1']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, TypeAlias

from seamark.errors import UsageError
from seamark.topic_partition import TopicPartition

NO_GENERATION = -1


class RebalanceProtocol(IntEnum):
    """How members give partitions up; of the protocols that all assignors of a member support, the highest is used."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """One member as the leader sees it.

    ``owned`` and ``generation`` are what the member claims to hold and since when; ``generation`` is -1 when the
    subscription's version cannot carry it or the member holds no valid one.
    """

    member_id: str
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None

    def __post_init__(self) -> None:
        if not self.member_id:
            raise UsageError("a member subscription needs a member id that is not empty")
        topics: object = self.topics
        if isinstance(topics, str):
            raise UsageError(f"the topics of member {self.member_id!r} are a list of names, not the text {topics!r}")


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """The partitions that exist, and the racks of their replicas (a partition not named there has no known rack)."""

    partition_counts: Mapping[str, int]
    replica_racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for topic, count in self.partition_counts.items():
            if count < 0:
                raise UsageError(f"topic {topic!r} cannot have {count} partitions")

    def known(self, topics: Iterable[str]) -> dict[str, int]:
        """Partition counts of those ``topics`` that exist and have partitions, by name."""
        counts = {topic: self.partition_counts.get(topic, 0) for topic in sorted(topics)}
        return {topic: count for topic, count in counts.items() if count > 0}

    def partitions_of(self, topics: Iterable[str]) -> Iterator[TopicPartition]:
        """Every partition of ``topics``, by topic and index; unknown topics have none."""
        for topic, count in self.known(topics).items():
            for index in range(count):
                yield TopicPartition(topic, index)


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """What one member gets: partitions sorted by topic and index, and bytes for its own assignor."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


Assignments: TypeAlias = dict[str, MemberAssignment]


class Assignor(ABC):
    """One assignment strategy, instantiated once per consumer.

    ``name`` is what members vote on, ``protocols`` the rebalance protocols it may run under, and
    ``subscription_version`` the lowest version of the subscription format that carries every field ``assign``
    reads.
    """

    name: ClassVar[str]
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)
    subscription_version: ClassVar[int] = 0

    @abstractmethod
    def assign(self, cluster: ClusterTopics, members: Sequence[MemberSubscription]) -> Assignments:
        """Answer an assignment for every member, also for those that get nothing."""

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:  # noqa: ARG002
        """Bytes to send with the subscription to ``topics``."""
        return None

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:  # noqa: B027
        """Learn what this member was given in ``generation``."""


def subscribed_topics(members: Iterable[MemberSubscription]) -> set[str]:
    return {topic for member in members for topic in member.topics}
