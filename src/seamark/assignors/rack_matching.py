"""Which members stand on the same rack as which replicas, and whether that should count at all (KIP-881).

Racks count only if some member's rack has a replica and the partitions differ in the racks they are on: if every
partition is on every rack, any member reads any partition locally and matching would only cost stickiness. An empty
rack name of a member means that it has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from seamark.assignors.contract import ClusterTopics, MemberSubscription
from seamark.topic_partition import TopicPartition

_NO_RACKS: frozenset[str] = frozenset()


def racks_count(member_racks: Iterable[str], partition_racks: Sequence[frozenset[str]]) -> bool:
    """Whether matching racks can make a difference between members on ``member_racks``."""
    all_racks = _NO_RACKS.union(*partition_racks)
    if all_racks.isdisjoint(member_racks):
        return False
    return any(racks != all_racks for racks in partition_racks)


class RackMatching:
    """The rack facts of one sticky assignment; without any effect when racks do not count."""

    def __init__(
        self, cluster: ClusterTopics, partitions: Sequence[TopicPartition], members: Iterable[MemberSubscription]
    ) -> None:
        member_racks = {member.member_id: member.rack for member in members if member.rack}
        replica_racks = {
            partition: cluster.replica_racks.get(partition, _NO_RACKS)
            for partition in (partitions if member_racks else ())
        }
        self.counts = racks_count(member_racks.values(), list(replica_racks.values()))
        self._member_racks: Mapping[str, str] = member_racks if self.counts else {}
        self._replica_racks: Mapping[TopicPartition, frozenset[str]] = replica_racks if self.counts else {}
        self._members_on = Counter(self._member_racks.values())

    def is_mismatch(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack and the partition has no replica there."""
        rack = self._member_racks.get(member_id)
        return rack is not None and rack not in self._replica_racks.get(partition, _NO_RACKS)

    def is_match(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack and the partition has a replica there."""
        return self._member_racks.get(member_id) in self._replica_racks.get(partition, _NO_RACKS)

    def hardest_to_place_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Partitions by the number of members that could read them locally; otherwise in the order given."""
        if not self.counts:
            return partitions
        return sorted(partitions, key=self._local_reader_count)

    def _local_reader_count(self, partition: TopicPartition) -> int:
        return sum(self._members_on[rack] for rack in self._replica_racks[partition])
