"""Sticky: as even as possible first, then as many partitions as possible stay where they are.

Members revoke everything before they join, so what they had travels in user data that ``on_assignment`` remembers. The
work is done by one of two algorithms: exact shares when all subscriptions are equal, balancing by single moves when
they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from seamark.assignors.contract import (
    Assignments,
    Assignor,
    ClusterTopics,
    MemberAssignment,
    MemberSubscription,
    subscribed_topics,
)
from seamark.assignors.equal_subscriptions import EqualSubscriptions
from seamark.assignors.member_order import by_member_id, in_visiting_order
from seamark.assignors.ownership import Claim, settle
from seamark.assignors.previous_assignment import decode_owned, encode_owned
from seamark.assignors.rack_matching import RackMatching
from seamark.assignors.shares import Shares
from seamark.assignors.unequal_subscriptions import UnequalSubscriptions
from seamark.topic_partition import TopicPartition


class StickyAssignor(Assignor):
    name: ClassVar[str] = "sticky"
    subscription_version: ClassVar[int] = 3

    def __init__(self) -> None:
        self._last: tuple[MemberAssignment, int] | None = None

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:  # noqa: ARG002
        if self._last is None:
            return None
        assignment, generation = self._last
        return encode_owned(assignment.partitions, generation)

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:
        self._last = assignment, generation

    def assign(self, cluster: ClusterTopics, members: Sequence[MemberSubscription]) -> Assignments:
        return assign_stickily(cluster, members, _remembered_claim).shares.as_assignments()


def _remembered_claim(member: MemberSubscription) -> Claim:
    return Claim(member.member_id, *decode_owned(member.user_data))


@dataclass(frozen=True, slots=True)
class StickyResult:
    """``handed_over`` holds the partitions that change owner, or is None where the algorithm does not follow them."""

    shares: Shares
    handed_over: set[TopicPartition] | None


def assign_stickily(
    cluster: ClusterTopics, members: Sequence[MemberSubscription], claim_of: Callable[[MemberSubscription], Claim]
) -> StickyResult:
    """Assign with what ``claim_of`` says each member had."""
    ordered = by_member_id(members)
    if not ordered:
        return StickyResult(Shares(()), None)
    topics = subscribed_topics(ordered)
    partitions = list(cluster.partitions_of(topics))
    ownership = settle([claim_of(member) for member in in_visiting_order(ordered)], cluster.known(topics))
    racks = RackMatching(cluster, partitions, ordered)
    # Unknown topics count here: a member that waits for a topic to appear is not subscribed like the others.
    if all(topics == set(member.topics) for member in ordered):
        equal = EqualSubscriptions(partitions, [member.member_id for member in ordered], ownership, racks)
        equal.assign()
        return StickyResult(equal.shares, equal.handed_over)
    return StickyResult(UnequalSubscriptions(partitions, ordered, ownership, racks).assign(), None)
