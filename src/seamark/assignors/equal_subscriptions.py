"""Sticky assignment when all members subscribe to the same topics: exact shares, found in one pass.

With n partitions and m members everyone gets the smaller share n // m, and n % m members one more. In this order:

1. Members keep what they own, up to the larger share while larger shares are left, else up to the smaller one. Where
   racks count, a partition with no replica on its owner's rack is not kept.
2. Where racks count, the rest is dealt in turn to members on a matching rack.
3. What is left is dealt in turn to members below the smaller share, then to those exactly at it.

Invariant: shares differ by at most one, and a partition is listed in ``handed_over`` if someone else may still hold it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from seamark.assignors.ownership import Ownership
from seamark.assignors.rack_matching import RackMatching
from seamark.assignors.shares import Shares
from seamark.topic_partition import TopicPartition


class EqualSubscriptions:
    """One assignment: ``assign`` fills ``shares`` and ``handed_over`` (partitions that change owner)."""

    def __init__(
        self,
        partitions: Sequence[TopicPartition],
        members_by_id: Sequence[str],
        ownership: Ownership,
        racks: RackMatching,
    ) -> None:
        self.shares = Shares(members_by_id)
        self.handed_over: set[TopicPartition] = set()
        self._partitions = partitions
        self._ownership = ownership
        self._racks = racks
        self._smaller, larger_shares = divmod(len(partitions), len(members_by_id))
        self._larger = self._smaller + (larger_shares > 0)
        self._larger_left = larger_shares
        self._given_up: dict[TopicPartition, str] = {}
        self._below: list[str] = []
        self._at_smaller: deque[str] = deque()

    def assign(self) -> None:
        kept = self._keep_owned()
        place = {member_id: place for place, member_id in enumerate(self.shares)}
        self._below.sort(key=place.__getitem__)
        self._at_smaller = deque(sorted(self._at_smaller, key=place.__getitem__))
        rest = [partition for partition in self._partitions if partition not in kept]
        if self._racks.counts:
            rest = self._deal_within_racks(self._racks.hardest_to_place_first(rest))
        self._deal(rest)

    def _keep_owned(self) -> set[TopicPartition]:
        kept: set[TopicPartition] = set()
        for member_id, claimed in self._ownership.owned.items():
            owned = []
            for partition in claimed:
                if self._racks.is_mismatch(member_id, partition):
                    self._given_up[partition] = member_id
                elif partition not in self._ownership.disputed:
                    owned.append(partition)
            # Keeping low indexes first leaves members with the same indexes of different topics.
            owned.sort(key=lambda partition: (partition.partition, partition.topic))

            limit = self._smaller
            if len(owned) < self._smaller:
                self._below.append(member_id)
            elif len(owned) >= self._larger and self._larger_left > 0:
                limit = self._larger
                self._take_larger_share()
            elif self._larger_left > 0:
                self._at_smaller.append(member_id)
            self.shares[member_id].extend(owned[:limit])
            kept.update(owned[:limit])
            self._given_up.update(dict.fromkeys(owned[limit:], member_id))
        return kept

    def _take_larger_share(self) -> None:
        self._larger_left -= 1
        if self._larger_left == 0:
            self._at_smaller.clear()

    def _deal_within_racks(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Give each partition to a member on one of its racks; the answer is what found none."""
        left = []
        turn = 0
        for partition in partitions:
            position = self._next_match(partition, self._below, turn)
            if position is not None:
                member_id = self._below[position]
                if len(self.shares[member_id]) + 1 >= self._smaller:
                    del self._below[position]
                    if self._larger_left > 0:
                        self._at_smaller.append(member_id)
                else:
                    position += 1
                turn = position % len(self._below) if self._below else 0
            else:
                position = self._next_match(partition, self._at_smaller, 0)
                if position is None:
                    left.append(partition)
                    continue
                member_id = self._at_smaller[position]
                del self._at_smaller[position]
                self._take_larger_share()
            self._give(partition, member_id)
        return left

    def _next_match(self, partition: TopicPartition, members: Sequence[str], start: int) -> int | None:
        for step in range(len(members)):
            position = (start + step) % len(members)
            if self._racks.is_match(members[position], partition):
                return position
        return None

    def _deal(self, partitions: list[TopicPartition]) -> None:
        turn = 0
        for partition in partitions:
            if not self._below:
                self._give(partition, self._at_smaller.popleft())
                continue
            turn %= len(self._below)
            member_id = self._below[turn]
            self._give(partition, member_id)
            if len(self.shares[member_id]) == self._smaller:
                del self._below[turn]
                self._at_smaller.append(member_id)
            else:
                turn += 1

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self.shares[member_id].append(partition)
        if partition in self._ownership.disputed or self._given_up.get(partition, member_id) != member_id:
            self.handed_over.add(partition)
