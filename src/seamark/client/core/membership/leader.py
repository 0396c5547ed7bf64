"""The leader's work: from everyone's subscription to everyone's assignment, and knowing when that has become stale.

The coordinator picks the leader and the protocol; the leader only runs it (C29, E2). It needs the partitions of every
topic that any member subscribes to, also those it does not read itself. What it saw is kept: the leader, and nobody
else, watches the metadata and asks for a new rebalance when the picture it assigned by is no longer true (C22).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from seamark.assignors import (
    Assignments,
    Assignor,
    ClusterTopics,
    CooperativeStickyAssignor,
    MemberSubscription,
    RebalanceProtocol,
    check_assignments,
)
from seamark.errors import DecodeError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.consumer_protocol import Subscription, decode_subscription
from seamark.wire.protocol.messages.join_group import JoinGroupResponseMember


class ClusterSeen(NamedTuple):
    """The part of the cluster that an assignment depended on."""

    partition_counts: Mapping[str, int]
    replica_racks: Mapping[TopicPartition, frozenset[str]]

    @classmethod
    def of(cls, cluster: ClusterTopics, topics: Iterable[str], *, with_racks: bool) -> ClusterSeen:
        """Racks count only for a member that has one: elsewhere a moved replica would cost a rebalance for nothing."""
        counts = cluster.known(topics)
        racks = cluster.replica_racks if with_racks else {}
        return cls(counts, {partition: racks[partition] for partition in racks if partition.topic in counts})


def read_subscriptions(
    members: Iterable[JoinGroupResponseMember],
) -> tuple[list[MemberSubscription], dict[str, DecodeError]]:
    """What the members said; those whose bytes cannot be read, with the reason, count as wanting nothing.

    If the leader gave up, one member that sends garbage would keep the whole group from ever being assigned.
    """
    subscriptions = []
    unreadable: dict[str, DecodeError] = {}
    for member in members:
        try:
            subscription = decode_subscription(member.metadata)
        except DecodeError as error:
            unreadable[member.member_id] = error
            subscription = Subscription()
        subscriptions.append(
            MemberSubscription(
                member_id=member.member_id,
                topics=tuple(subscription.topics),
                user_data=subscription.user_data,
                owned=tuple(
                    TopicPartition(entry.topic, index)
                    for entry in subscription.owned_partitions
                    for index in entry.partitions
                ),
                generation=subscription.generation_id,
                rack=subscription.rack_id,
                instance_id=member.group_instance_id,
            )
        )
    return subscriptions, unreadable


def topics_of(members: Iterable[MemberSubscription]) -> frozenset[str]:
    return frozenset(topic for member in members for topic in member.topics)


def assign(
    assignor: Assignor, cluster: ClusterTopics, members: Sequence[MemberSubscription], protocol: RebalanceProtocol
) -> Assignments:
    """Run the assignor and refuse an answer that would harm the group.

    The built-in cooperative assignor knows of claims that are out of date, which the check does not.
    """
    assignments = assignor.assign(cluster, members)
    is_cooperative = protocol is RebalanceProtocol.COOPERATIVE and not isinstance(assignor, CooperativeStickyAssignor)
    check_assignments(assignor.name, cluster, members, assignments, is_cooperative=is_cooperative)
    return assignments
