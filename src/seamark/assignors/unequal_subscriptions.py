"""Sticky assignment when members subscribe to different topics: keep, fill up, then move towards balance.

1. Members keep what they own if they still subscribe to it (and, where racks count, are on one of its racks).
2. Every other partition, those with the fewest possible readers first, goes to the reader that has least; where racks
   count, first to the readers on a matching rack.
3. While some reader could take a partition from a member that has at least two more, it does. Partitions that were
   assigned in step 2 are tried first, so that moves cost nobody anything. A partition prefers the member that owned it
   earlier.
4. If step 3 moved owned partitions and the balance score is no better for it, its moves are undone.

Members are numbered by member id and named by number. Only topics with two or more readers can move; a member without
such a topic is left out of steps 3 and 4.

Invariants: a partition is only ever given to a reader of its topic. Moves in step 3, all but a bounded number, take
from a member with at least two more than the receiver; each of them lowers the sum of squared sizes, so step 3 ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace

from seamark.assignors.balance import balance_score
from seamark.assignors.contract import MemberSubscription
from seamark.assignors.movements import Movements
from seamark.assignors.ownership import Ownership
from seamark.assignors.rack_matching import RackMatching
from seamark.assignors.shares import Shares
from seamark.topic_partition import TopicPartition

# Undoing an earlier move in place of a new one may take from a member that has little. Such detours are rare, but Kafka
# makes them and sets no bound; one far above what groups need ends the balancing and leaves its answers unchanged.
_DETOURS_PER_PARTITION = 1


class UnequalSubscriptions:
    """One assignment: ``assign`` answers the finished shares."""

    def __init__(
        self,
        partitions: Sequence[TopicPartition],
        members_by_id: Sequence[MemberSubscription],
        ownership: Ownership,
        racks: RackMatching,
    ) -> None:
        self._ids = [member.member_id for member in members_by_id]
        self._readers: dict[str, list[int]] = {partition.topic: [] for partition in partitions}
        for number, member in enumerate(members_by_id):
            for topic in dict.fromkeys(member.topics):
                if topic in self._readers:
                    self._readers[topic].append(number)
        self._partitions = sorted(partitions, key=lambda partition: (len(self._readers[partition.topic]), partition))
        self._ownership = ownership
        self._racks = racks
        self._owner: dict[TopicPartition, int] = {}
        self._sizes = [0] * len(members_by_id)
        self._movements = Movements()
        # Of the topics that were looked at since the last move.
        self._least: dict[str, int] = {}
        self._detours_left = len(partitions) * _DETOURS_PER_PARTITION

    def assign(self) -> Shares:
        must_revoke = self._keep_owned()
        starts_empty = not self._owner
        unowned = [partition for partition in self._partitions if partition not in self._owner]
        self._fill_up(unowned)

        before, sizes_before = dict(self._owner), list(self._sizes)
        if not must_revoke:
            self._move(self._movable(unowned))
        has_moved = self._move(self._movable(self._partitions))
        if has_moved and not starts_empty and self._score(self._sizes) >= self._score(sizes_before):
            self._owner = before

        shares = Shares(self._ids)
        for partition, number in self._owner.items():
            shares[self._ids[number]].append(partition)
        return shares

    def _keep_owned(self) -> bool:
        """Start from what is owned and may stay; the answer is whether something may not."""
        number_of = {member_id: number for number, member_id in enumerate(self._ids)}
        must_revoke = False
        for member_id, owned in self._ownership.owned.items():
            number = number_of[member_id]
            for partition in owned:
                if number not in self._readers[partition.topic] or self._racks.is_mismatch(member_id, partition):
                    must_revoke = True
                else:
                    self._owner[partition] = number
                    self._sizes[number] += 1
        return must_revoke

    def _fill_up(self, partitions: list[TopicPartition]) -> None:
        left = partitions
        if self._racks.counts:
            left = []
            for partition in partitions:
                local = [
                    number
                    for number in self._readers[partition.topic]
                    if not self._racks.is_mismatch(self._ids[number], partition)
                ]
                if local:
                    self._give(partition, self._least_loaded(local))
                else:
                    left.append(partition)
        topic, heap = "", list[tuple[int, int]]()
        for partition in left:
            # Partitions of a topic stand together, and sizes only grow here: an entry that lags behind is put right
            # when it comes up. Without the heap every partition would look at every member.
            if partition.topic != topic:
                topic = partition.topic
                heap = [(self._sizes[number], number) for number in self._readers[topic]]
                heapify(heap)
            while heap[0][0] != self._sizes[heap[0][1]]:
                number = heap[0][1]
                heapreplace(heap, (self._sizes[number], number))
            self._give(partition, heap[0][1])

    def _give(self, partition: TopicPartition, number: int) -> None:
        self._owner[partition] = number
        self._sizes[number] += 1

    def _least_loaded(self, numbers: list[int]) -> int:
        """The member with least; of several the first by id, because ``numbers`` ascend."""
        return min(numbers, key=self._sizes.__getitem__)

    def _movable(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [partition for partition in partitions if len(self._readers[partition.topic]) > 1]

    def _score(self, sizes: list[int]) -> int:
        movers = {number for readers in self._readers.values() if len(readers) > 1 for number in readers}
        return balance_score(sizes[number] for number in movers)

    def _move(self, partitions: list[TopicPartition]) -> bool:
        """Move single partitions until no move improves anything; the answer is whether one was made."""
        has_moved = False
        is_settled = False
        while not is_settled:
            is_settled = True
            for partition in partitions:
                target = self._better_owner(partition)
                if target is not None:
                    self._reassign(partition, target)
                    has_moved = True
                    is_settled = False
        return has_moved

    def _better_owner(self, partition: TopicPartition) -> int | None:
        enough = self._sizes[self._owner[partition]] - 2
        if enough < 0:
            return None
        readers = self._readers[partition.topic]
        earlier = self._ownership.earlier_owner.get(partition)
        if earlier is not None:
            # A member that has since dropped the topic is no candidate, whatever it owned.
            number = next((number for number in readers if self._ids[number] == earlier), None)
            if number is not None and self._sizes[number] <= enough:
                return number
        least = self._least_reader(partition.topic)
        return least if self._sizes[least] <= enough else None

    def _least_reader(self, topic: str) -> int:
        """The least loaded reader of a topic; the same until the next move."""
        reader = self._least.get(topic)
        if reader is None:
            reader = self._least[topic] = self._least_loaded(self._readers[topic])
        return reader

    def _reassign(self, partition: TopicPartition, target: int) -> None:
        choice = self._movements.better_choice(partition, self._owner[partition], target)
        owner = self._owner[choice]
        if self._sizes[owner] < self._sizes[target] + 2:
            self._detours_left -= 1
            if self._detours_left < 0:
                choice, owner = partition, self._owner[partition]
        self._movements.record(choice, owner, target)
        self._least.clear()
        self._owner[choice] = target
        self._sizes[owner] -= 1
        self._sizes[target] += 1
