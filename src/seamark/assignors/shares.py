"""The answer of an assignor while it is being built: a growing list of partitions per member.

Invariant: every member has a list from the start, so nobody is missing from the finished answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from seamark.assignors.contract import Assignments, MemberAssignment
from seamark.topic_partition import TopicPartition


class Shares(dict[str, list[TopicPartition]]):
    """Member id to the partitions it has so far."""

    def __init__(self, member_ids: Iterable[str]) -> None:
        super().__init__((member_id, []) for member_id in member_ids)

    def as_assignments(self) -> Assignments:
        return {member_id: MemberAssignment(tuple(sorted(partitions))) for member_id, partitions in self.items()}
