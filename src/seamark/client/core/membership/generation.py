"""Who a member is: the four states of a member and the generation that commits and heartbeats are made under.

A generation is replaced, never edited: an answer is judged by comparing the generation of its request with the one held
now. ``NO_GENERATION`` is the answer to "who am I" before the first join and after every reset.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

UNKNOWN_GENERATION_ID = -1
UNKNOWN_MEMBER_ID = ""


class MemberState(Enum):
    """Where a member stands.

    UNJOINED: no request of a rebalance is under way and none has succeeded since the last reset. No heartbeats.
    PREPARING_REBALANCE: JoinGroup is sent, its answer is awaited. No heartbeats: the parked request stands for them.
    COMPLETING_REBALANCE: JoinGroup is answered, SyncGroup is not. Heartbeats run.
    STABLE: the assignment is known. Heartbeats run, and only here commits carry the generation.
    """

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing_rebalance"
    COMPLETING_REBALANCE = "completing_rebalance"
    STABLE = "stable"

    @property
    def is_joining(self) -> bool:
        return self in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)


class Generation(NamedTuple):
    generation_id: int
    member_id: str
    protocol: str | None = None

    @property
    def is_reset(self) -> bool:
        """Would the group not recognise it?"""
        return self.generation_id == UNKNOWN_GENERATION_ID or self.member_id == UNKNOWN_MEMBER_ID

    def without_id(self) -> Generation:
        """The same member, not in any generation."""
        return Generation(UNKNOWN_GENERATION_ID, self.member_id)


NO_GENERATION = Generation(UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID)


class GroupIdentity(NamedTuple):
    """What a commit is made under; a consumer that assigns itself partitions has none and sends NO_IDENTITY."""

    generation_id: int
    member_id: str
    instance_id: str | None


NO_IDENTITY = GroupIdentity(UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID, None)


class GroupMetadata(NamedTuple):
    """The consumer's place in its group, as ``group_metadata`` shows it."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
