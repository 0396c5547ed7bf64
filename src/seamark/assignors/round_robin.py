"""Round robin: all partitions, by topic and index, dealt over the members in turn.

A member that does not subscribe to the topic at hand is passed over and loses its turn, so with unequal subscriptions
the shares can differ by more than one. Racks and earlier assignments play no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from seamark.assignors.contract import Assignments, Assignor, ClusterTopics, MemberSubscription, subscribed_topics
from seamark.assignors.member_order import static_members_first
from seamark.assignors.shares import Shares


class RoundRobinAssignor(Assignor):
    name: ClassVar[str] = "roundrobin"

    def assign(self, cluster: ClusterTopics, members: Sequence[MemberSubscription]) -> Assignments:
        circle = static_members_first(members)
        topics_of = [frozenset(member.topics) for member in circle]
        shares = Shares(member.member_id for member in circle)
        turn = 0
        for partition in cluster.partitions_of(subscribed_topics(circle)):
            while partition.topic not in topics_of[turn]:
                turn = (turn + 1) % len(circle)
            shares[circle[turn].member_id].append(partition)
            turn = (turn + 1) % len(circle)
        return shares.as_assignments()
