"""Range: topic by topic, each member gets a run of consecutive partitions.

With n partitions and m subscribers each gets n // m and the first n % m one more, so two topics with equal counts and
subscribers are cut at the same places and a member gets the same indexes of both (co-partitioning).

Where racks count, partitions are first given to members on a rack of a replica, within the same limits: topics that are
co-partitioned index by index, to a member that matches in all of them; other topics by themselves. What is left is
dealt out in runs. Invariant: with or without racks, a member's number of partitions per topic obeys the rule above.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import ClassVar

from seamark.assignors.contract import Assignments, Assignor, ClusterTopics, MemberSubscription, subscribed_topics
from seamark.assignors.member_order import static_members_first
from seamark.assignors.rack_matching import racks_count
from seamark.assignors.shares import Shares
from seamark.topic_partition import TopicPartition


class RangeAssignor(Assignor):
    name: ClassVar[str] = "range"
    subscription_version: ClassVar[int] = 3

    def assign(self, cluster: ClusterTopics, members: Sequence[MemberSubscription]) -> Assignments:
        ordered = static_members_first(members)
        subscribers: dict[str, dict[str, str | None]] = defaultdict(dict)
        for member in ordered:
            for name in member.topics:
                subscribers[name][member.member_id] = member.rack or None
        topics = [
            _Topic(name, count, subscribers[name], cluster)
            for name, count in cluster.known(subscribed_topics(ordered)).items()
        ]
        shares = Shares(member.member_id for member in ordered)
        if any(topic.racks_count for topic in topics):
            _give_by_rack(topics, shares)
        for topic in topics:
            _give_runs(topic, shares, lambda _member, _index: True)
        return shares.as_assignments()


class _Topic:
    """What is left of one topic, and how much each subscriber may still get of it."""

    def __init__(self, name: str, count: int, racks_of: dict[str, str | None], cluster: ClusterTopics) -> None:
        self.name = name
        self.count = count
        self.racks_of = racks_of
        self.unassigned = dict.fromkeys(range(count))
        self._share, self._larger_shares_left = divmod(count, len(racks_of))
        self._given = dict.fromkeys(racks_of, 0)
        member_racks = {rack for rack in racks_of.values() if rack is not None}
        self.has_racks = bool(member_racks)
        nowhere: frozenset[str] = frozenset()
        self._replica_racks = [
            cluster.replica_racks.get(TopicPartition(name, index), nowhere) for index in range(count)
        ]
        self.racks_count = racks_count(member_racks, self._replica_racks)

    def is_local(self, member_id: str, index: int) -> bool:
        """Whether the member is on a rack of the partition; a member without a rack is local everywhere."""
        rack = self.racks_of[member_id]
        return rack is None or rack in self._replica_racks[index]

    def room(self, member_id: str) -> int:
        return max(0, self._share + (self._larger_shares_left > 0) - self._given[member_id])

    def give(self, member_id: str, indexes: Iterable[int], shares: Shares) -> None:
        for index in indexes:
            del self.unassigned[index]
            shares[member_id].append(TopicPartition(self.name, index))
            self._given[member_id] += 1
        if self._given[member_id] > self._share:
            self._larger_shares_left -= 1


def _give_runs(topic: _Topic, shares: Shares, may_give: Callable[[str, int], bool]) -> None:
    for member_id in topic.racks_of:
        eligible = (index for index in topic.unassigned if may_give(member_id, index))
        run = list(islice(eligible, topic.room(member_id)))
        if run:
            topic.give(member_id, run, shares)


def _give_by_rack(topics: list[_Topic], shares: Shares) -> None:
    co_partitioned: dict[tuple[frozenset[str], int], list[_Topic]] = defaultdict(list)
    for topic in topics:
        if topic.has_racks:
            co_partitioned[frozenset(topic.racks_of), topic.count].append(topic)
    for group in co_partitioned.values():
        if len(group) > 1:
            _give_same_indexes(group, shares)
        elif group[0].racks_count:
            _give_runs(group[0], shares, group[0].is_local)


def _give_same_indexes(topics: list[_Topic], shares: Shares) -> None:
    with_room = list(topics[0].racks_of)
    for index in range(topics[0].count):
        for member_id in with_room:
            if all(topic.is_local(member_id, index) and topic.room(member_id) for topic in topics):
                for topic in topics:
                    topic.give(member_id, (index,), shares)
                if not any(topic.room(member_id) for topic in topics):
                    with_room.remove(member_id)
                break
