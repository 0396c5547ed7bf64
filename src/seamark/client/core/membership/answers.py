"""What a member does about an error code in answer to JoinGroup, SyncGroup or Heartbeat: one table (C17, C31).

Three questions per code: what becomes of the generation, is the coordinator still the coordinator, and what comes next.
A code that the table does not have leaves the generation alone; whether it is retried follows from Kafka's own list of
retriable codes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from seamark.wire.protocol.error_codes import ErrorCode


class Reset(Enum):
    """What becomes of the generation, provided it is still the one the request was sent under."""

    NOTHING = "nothing"
    # The member id may still be good; joining with it spares the group the wait for the old member to expire.
    KEEP_MEMBER_ID = "keep the member id"
    EVERYTHING = "everything"


class Next(Enum):
    """What the join loop does after a failed attempt."""

    JOIN_AT_ONCE = "join at once"
    JOIN_AFTER_BACKOFF = "join after the retry backoff"
    RAISE = "raise"


class Reaction(NamedTuple):
    reset: Reset
    forgets_coordinator: bool
    next: Next


_AT_ONCE = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
}
_FORGETS_COORDINATOR = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
_RESETS = {
    ErrorCode.UNKNOWN_MEMBER_ID: Reset.EVERYTHING,
    ErrorCode.FENCED_INSTANCE_ID: Reset.EVERYTHING,
    ErrorCode.ILLEGAL_GENERATION: Reset.KEEP_MEMBER_ID,
}


def reaction_to(code: ErrorCode) -> Reaction:
    """How a member reacts to ``code``.

    >>> reaction_to(ErrorCode.ILLEGAL_GENERATION).reset.name, reaction_to(ErrorCode.NOT_COORDINATOR).next.name
    ('KEEP_MEMBER_ID', 'JOIN_AFTER_BACKOFF')
    """
    if code in _AT_ONCE:
        following = Next.JOIN_AT_ONCE
    elif code.is_retriable:
        following = Next.JOIN_AFTER_BACKOFF
    else:
        following = Next.RAISE
    return Reaction(_RESETS.get(code, Reset.NOTHING), code in _FORGETS_COORDINATOR, following)
