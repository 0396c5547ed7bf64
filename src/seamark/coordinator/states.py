"""The states of a group, how each is entered, and what each answers: the one table the rules read.

    state                 entered when                        left when
    Empty                 created, or the last member is gone a member joins; tombstone stored
    PreparingRebalance    a member joins, leaves or expires   all members rejoined, or the rebalance timeout
    CompletingRebalance   the join phase has ended            the leader's assignment is stored; a member changes
    Stable                the assignment is stored            a member joins, leaves, expires or changes
    Dead                  removed or unloaded                 never

The answer tables hold the code a request gets from a state once its member and generation are found right (``NONE``:
the request is served). Before that come, in this order, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID, ILLEGAL_GENERATION and
for SyncGroup INCONSISTENT_GROUP_PROTOCOL. A move that the table does not hold is a bug and raises.
"""

from __future__ import annotations

from enum import Enum

from seamark.wire.protocol.error_codes import ErrorCode


class State(Enum):
    """The value is the name on the wire (D1)."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# D34: the states each state may be entered from.
PREDECESSORS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING}),
    State.PREPARING: frozenset({State.EMPTY, State.COMPLETING, State.STABLE}),
    State.COMPLETING: frozenset({State.PREPARING}),
    State.STABLE: frozenset({State.COMPLETING}),
    State.DEAD: frozenset(State),
}

# D29. All members that get this far restart their session.
HEARTBEAT_ANSWERS: dict[State, ErrorCode] = {
    State.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    State.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    State.COMPLETING: ErrorCode.NONE,
    State.STABLE: ErrorCode.NONE,
    State.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

# D28. CompletingRebalance parks the request until the leader's assignment is stored, Stable answers with it.
SYNC_ANSWERS: dict[State, ErrorCode] = {
    State.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    State.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    State.COMPLETING: ErrorCode.NONE,
    State.STABLE: ErrorCode.NONE,
    State.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

# F26, F27, for a commit by a member. An anonymous commit is served by Empty only.
COMMIT_ANSWERS: dict[State, ErrorCode] = {
    State.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    State.PREPARING: ErrorCode.NONE,
    State.COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    State.STABLE: ErrorCode.NONE,
    State.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

# DeleteGroups, and OffsetDelete for groups of another protocol type than "consumer".
DELETE_ANSWERS: dict[State, ErrorCode] = {
    State.EMPTY: ErrorCode.NONE,
    State.PREPARING: ErrorCode.NON_EMPTY_GROUP,
    State.COMPLETING: ErrorCode.NON_EMPTY_GROUP,
    State.STABLE: ErrorCode.NON_EMPTY_GROUP,
    State.DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}


class IllegalMove(AssertionError):
    """A group was about to change state in a way the table does not allow: a bug in a rule."""


def check_move(group_id: str, before: State, after: State) -> None:
    """Refuse a move that the table does not hold.

    >>> check_move("g", State.STABLE, State.PREPARING)
    """
    if before not in PREDECESSORS[after]:
        raise IllegalMove(f"group {group_id!r} cannot move from {before.value} to {after.value}")
