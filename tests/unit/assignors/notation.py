"""A short notation for assignor tests: partitions are written "orders-0 orders-1" and answers compared as such text."""

from __future__ import annotations

from collections.abc import Mapping

from seamark.assignors import (
    Assignor,
    ClusterTopics,
    MemberAssignment,
    MemberSubscription,
    TopicPartition,
)
from seamark.assignors.previous_assignment import encode_owned


def partitions(text: str) -> tuple[TopicPartition, ...]:
    named = [name.rsplit("-", 1) for name in text.split()]
    return tuple(TopicPartition(topic, int(index)) for topic, index in named)


def written(assignment: MemberAssignment) -> str:
    return " ".join(str(partition) for partition in assignment.partitions)


def cluster(**counts: int) -> ClusterTopics:
    return ClusterTopics(counts)


def on_racks(racks: Mapping[str, str]) -> ClusterTopics:
    """A cluster from partitions and the one-letter names of the racks with their replicas."""
    replica_racks = {partitions(name)[0]: frozenset(letters) for name, letters in racks.items()}
    counts: dict[str, int] = {}
    for topic, _ in replica_racks:
        counts[topic] = counts.get(topic, 0) + 1
    return ClusterTopics(counts, replica_racks)


def member(
    member_id: str,
    topics: str,
    *,
    owned: str = "",
    generation: int = -1,
    rack: str | None = None,
    instance_id: str | None = None,
) -> MemberSubscription:
    """A member that tells what it owned in both ways: in the subscription's fields and in sticky's user data."""
    claimed = partitions(owned)
    return MemberSubscription(
        member_id,
        tuple(topics.split()),
        user_data=encode_owned(claimed, generation) if claimed else None,
        owned=claimed,
        generation=generation,
        rack=rack,
        instance_id=instance_id,
    )


def given(assignor: Assignor, topics: ClusterTopics, *members: MemberSubscription) -> dict[str, str]:
    """What ``assignor`` gives to whom, after checking that the order of the members makes no difference."""
    answer = assignor.assign(topics, members)
    assert assignor.assign(topics, members[::-1]) == answer
    return {member_id: written(assignment) for member_id, assignment in answer.items()}
