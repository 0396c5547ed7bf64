"""Who is believed to own what before a sticky assignment starts.

Members report what they held and in which generation. A partition that two members claim stays with the claim of the
higher generation; of two equal claims neither is believed and the partition is *disputed*. Claims are heard in visiting
order, as a Java leader hears them, which decides the outcome where three or more members claim one partition.

Claims to partitions that do not exist, or that nobody subscribes to any more, are not heard at all. Invariant:
afterwards a partition has at most one owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seamark.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Claim:
    member_id: str
    owned: tuple[TopicPartition, ...]
    generation: int


@dataclass(slots=True)
class Ownership:
    """``owned`` keeps members in visiting order and has an entry for each; its inner dictionaries are ordered sets."""

    owned: dict[str, dict[TopicPartition, None]] = field(default_factory=dict)
    disputed: set[TopicPartition] = field(default_factory=set)
    earlier_owner: dict[TopicPartition, str] = field(default_factory=dict)


def settle(claims: Sequence[Claim], partition_counts: Mapping[str, int]) -> Ownership:
    """Decide between ``claims``, which are given in visiting order."""
    ownership = Ownership()
    last_claim: dict[TopicPartition, Claim] = {}
    for claim in claims:
        kept = ownership.owned[claim.member_id] = {}
        for partition in dict.fromkeys(claim.owned):
            if not 0 <= partition.partition < partition_counts.get(partition.topic, 0):
                continue
            rival = last_claim.get(partition)
            if rival is not None and claim.generation < rival.generation:
                continue
            last_claim[partition] = claim
            if rival is not None:
                ownership.owned[rival.member_id].pop(partition, None)
                if claim.generation == rival.generation:
                    ownership.disputed.add(partition)
                    continue
            kept[partition] = None
    ownership.earlier_owner = _owners_before_the_latest_generation(claims)
    return ownership


def _owners_before_the_latest_generation(claims: Sequence[Claim]) -> dict[TopicPartition, str]:
    """The member that a partition would go back to if balance asks for a move: its latest owner among stale claims."""
    latest = max((claim.generation for claim in claims), default=-1)
    best: dict[TopicPartition, Claim] = {}
    for claim in claims:
        if claim.generation < latest:
            for partition in claim.owned:
                rival = best.get(partition)
                if rival is None or claim.generation > rival.generation:
                    best[partition] = claim
    return {partition: claim.member_id for partition, claim in best.items()}
