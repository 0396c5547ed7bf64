"""What a leader checks before it sends an assignment to the group: custom assignors can be wrong.

A wrong assignment does lasting harm: two owners of a partition process it twice and overwrite each other's commits.
Partitions that nobody gets are no fault; a cooperative assignor withholds some on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seamark.assignors.contract import ClusterTopics, MemberAssignment, MemberSubscription
from seamark.errors import SeamarkError
from seamark.topic_partition import TopicPartition


class BadAssignment(SeamarkError):
    """An assignor broke the contract; ``faults`` says where, one sentence each."""

    def __init__(self, assignor: str, faults: Sequence[str]) -> None:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(f"assignor {assignor!r}: {faults[0]}{more}")
        self.assignor = assignor
        self.faults = tuple(faults)

    def __reduce__(self) -> tuple[type[BadAssignment], tuple[str, tuple[str, ...]]]:
        return type(self), (self.assignor, self.faults)


def check_assignments(
    assignor: str,
    cluster: ClusterTopics,
    members: Sequence[MemberSubscription],
    assignments: Mapping[str, MemberAssignment],
    *,
    is_cooperative: bool,
) -> None:
    """Raise BadAssignment unless ``assignments`` can be sent to the group.

    Under the cooperative protocol, nothing may change hands without a round in which nobody has it.
    """
    faults = assignment_faults(cluster, members, assignments)
    if is_cooperative:
        faults += handover_faults(members, assignments)
    if faults:
        raise BadAssignment(assignor, faults)


def assignment_faults(
    cluster: ClusterTopics, members: Sequence[MemberSubscription], assignments: Mapping[str, MemberAssignment]
) -> list[str]:
    topics_of = {member.member_id: frozenset(member.topics) for member in members}
    faults = [f"member {member_id} has no assignment" for member_id in topics_of if member_id not in assignments]
    owner: dict[TopicPartition, str] = {}
    for member_id, assignment in assignments.items():
        if member_id not in topics_of:
            faults.append(f"{member_id} is not a member of the group")
            continue
        for partition in assignment.partitions:
            if partition.topic not in topics_of[member_id]:
                faults.append(f"{partition} went to {member_id}, which does not subscribe to it")
            elif not 0 <= partition.partition < cluster.partition_counts.get(partition.topic, 0):
                faults.append(f"{partition} went to {member_id} but does not exist")
            if partition in owner:
                faults.append(f"{partition} went to {owner[partition]} and to {member_id}")
            owner[partition] = member_id
    return faults


def handover_faults(members: Sequence[MemberSubscription], assignments: Mapping[str, MemberAssignment]) -> list[str]:
    """Partitions given to a member that did not have them while another one that has them is to give them up."""
    losing: dict[TopicPartition, str] = {}
    gaining: dict[TopicPartition, str] = {}
    for member in members:
        partitions = set(assignments.get(member.member_id, MemberAssignment()).partitions)
        losing.update(dict.fromkeys(set(member.owned) - partitions, member.member_id))
        gaining.update(dict.fromkeys(partitions.difference(member.owned), member.member_id))
    return [
        f"{partition} went to {gaining[partition]} before {losing[partition]} has revoked it"
        for partition in sorted(gaining.keys() & losing.keys())
    ]
