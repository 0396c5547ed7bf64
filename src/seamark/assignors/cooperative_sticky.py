"""Cooperative sticky: the sticky assignment, reached in two rounds where a partition changes owner.

Members keep what they own while they join. A partition that should go to a new owner while another member still holds
it is given to nobody in this round; its holder revokes it and rejoins, and the round after hands it over (KIP-429).

Invariant: no partition is given to a member while another one claims it, unless the receiver's own claim is the valid
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from seamark.assignors.contract import (
    NO_GENERATION,
    Assignments,
    Assignor,
    ClusterTopics,
    MemberAssignment,
    MemberSubscription,
    RebalanceProtocol,
)
from seamark.assignors.ownership import Claim
from seamark.assignors.previous_assignment import decode_generation, encode_generation
from seamark.assignors.shares import Shares
from seamark.assignors.sticky import assign_stickily
from seamark.topic_partition import TopicPartition


class CooperativeStickyAssignor(Assignor):
    name: ClassVar[str] = "cooperative-sticky"
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    subscription_version: ClassVar[int] = 3

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Sequence[str]) -> bytes:  # noqa: ARG002
        # Leaders that predate the generation field of the subscription (version 2) read it from here.
        return encode_generation(self._generation)

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:  # noqa: ARG002
        self._generation = generation

    def assign(self, cluster: ClusterTopics, members: Sequence[MemberSubscription]) -> Assignments:
        result = assign_stickily(cluster, members, _stated_claim)
        handed_over = result.handed_over
        if handed_over is None:
            handed_over = _changing_hands(members, result.shares)
        for member_id, partitions in result.shares.items():
            result.shares[member_id] = [partition for partition in partitions if partition not in handed_over]
        return result.shares.as_assignments()


def _stated_claim(member: MemberSubscription) -> Claim:
    generation = member.generation if member.generation >= 0 else decode_generation(member.user_data)
    return Claim(member.member_id, member.owned, generation)


def _changing_hands(members: Sequence[MemberSubscription], shares: Shares) -> set[TopicPartition]:
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member in members:
        share = set(shares[member.member_id])
        added |= share.difference(member.owned)
        revoked |= set(member.owned).difference(share)
    return added & revoked
