"""What a consumer holds: its partitions, each with a term, a position and what stands in the way of fetching it.

Every time a partition is assigned its term rises, also when it was held before: whatever is still in flight from an
earlier assignment can be told apart and dropped. A partition goes through phases; only READY ones are fetched.

    UNKNOWN   --committed offset-->  VALIDATE or READY      --no committed offset-->  RESET
    RESET     --offset by policy-->  READY                  (or STUCK, where the policy is none)
    VALIDATE  --epoch confirmed-->   READY                  --log truncated-->        READY at the divergence, or STUCK
    READY     --out of range-->      RESET or STUCK         --new leader-->           VALIDATE
    any       --seek-->              VALIDATE or READY

``position`` is behind what the caller was given; what it has come back for, and so has processed, may lie before that.

Threads: the position of a READY partition is moved by the caller's thread, as it takes records. The I/O thread changes
it only while the caller waits for it, or when the partition is not READY and nothing of it can be taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from seamark.client.errors import ClientError
from seamark.errors import UsageError
from seamark.topic_partition import TopicPartition

NO_EPOCH = -1
_NO_VISIT = -1


class Position(NamedTuple):
    """The next offset to read; ``leader_epoch`` is that of the record before it, -1 if unknown."""

    offset: int
    leader_epoch: int = NO_EPOCH


class Phase(Enum):
    UNKNOWN = "its committed offset is not known yet"
    RESET = "its offset is being looked up by timestamp"
    VALIDATE = "its position is being validated with the leader"
    READY = "it is being fetched"
    STUCK = "it needs a seek"


class PartitionState:
    """One assigned partition. ``question`` rises with every change of mind, so that late answers are recognised."""

    __slots__ = (
        "discarded",
        "fruitless_resets",
        "is_asked",
        "is_held",
        "is_paused",
        "last_error",
        "lasting_error",
        "partition",
        "phase",
        "position",
        "position_at_visit",
        "question",
        "reset_timestamp",
        "reset_to",
        "retry_at_ms",
        "term",
        "validated_epoch",
        "visit",
    )

    def __init__(self, partition: TopicPartition, term: int, *, is_held: bool) -> None:
        self.partition = partition
        self.term = term
        self.phase = Phase.UNKNOWN
        self.position: Position | None = None
        self.is_paused = False
        # Neither looked up nor fetched: the listener has not heard of it yet, or it is about to be revoked.
        self.is_held = is_held
        # Where a RESET goes: a timestamp, or one of ListOffsets' special values.
        self.reset_timestamp: int | None = None
        # The position that a RESET replaces, if it was one, and why.
        self.discarded: tuple[Position, str] | None = None
        # Where the last RESET led, and how often in a row it led to an offset that is not in the log either.
        self.reset_to: int | None = None
        self.fruitless_resets = 0
        self.question = 0
        self.is_asked = False
        self.retry_at_ms = 0
        # What poll raises about it; stays until a seek where only that can help.
        self.lasting_error: ClientError | None = None
        # What the last look-up met, for the message of a caller whose time runs out.
        self.last_error: ClientError | None = None
        self.validated_epoch = NO_EPOCH
        # Where the position was when the caller last came, if it was given anything since: ``visit`` says when.
        self.position_at_visit: Position | None = None
        self.visit = _NO_VISIT

    def change(self, phase: Phase) -> None:
        self.phase = phase
        self.question += 1
        self.is_asked = False
        self.retry_at_ms = 0
        self.lasting_error = None
        # The position is the caller's word or the group's from here on, not what was handed out.
        self.visit = _NO_VISIT


class AssignmentState:
    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self._terms: dict[TopicPartition, int] = {}
        # Rises whenever the caller comes back.
        self._visit = 0

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(self._states)

    def get(self, partition: TopicPartition) -> PartitionState | None:
        return self._states.get(partition)

    def require(self, partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition; UsageError for one that is not."""
        state = self._states.get(partition)
        if state is None:
            raise UsageError(f"{partition} is not assigned to this consumer")
        return state

    def own(self, partitions: Iterable[TopicPartition], *, is_held: bool) -> list[TopicPartition]:
        """Hold exactly these partitions; those not held before start anew, held back if so wanted. Gives what went."""
        wanted = dict.fromkeys(sorted(partitions))
        gone = [partition for partition in self._states if partition not in wanted]
        states = {}
        for partition in wanted:
            state = self._states.get(partition)
            if state is None:
                term = self._terms[partition] = self._terms.get(partition, 0) + 1
                state = PartitionState(partition, term, is_held=is_held)
            states[partition] = state
        self._states = states
        return gone

    def hold(self, partitions: Iterable[TopicPartition], *, is_held: bool) -> None:
        for partition in partitions:
            state = self._states.get(partition)
            if state is not None:
                state.is_held = is_held

    def consumed(self, partition: TopicPartition, term: int, position: Position) -> bool:
        """Records up to the position were handed out; False if that was under an earlier term."""
        state = self._states.get(partition)
        if state is None or state.term != term or state.phase is not Phase.READY:
            return False
        if state.visit != self._visit:
            state.visit = self._visit
            state.position_at_visit = state.position
        state.position = position
        return True

    def came_back(self) -> None:
        """The caller is here again, so everything that it was given so far counts as processed."""
        self._visit += 1

    def positions(self) -> dict[TopicPartition, Position]:
        """What a commit of everything consumed commits: partitions without a position have nothing to commit."""
        return {
            state.partition: state.position
            for state in self._states.values()
            if state.position is not None and state.phase in (Phase.READY, Phase.VALIDATE)
        }

    def processed(self) -> dict[TopicPartition, Position]:
        """As ``positions``, without what was handed out since the caller last came."""
        positions = self.positions()
        for state in self._states.values():
            if state.visit == self._visit and state.partition in positions and state.position_at_visit is not None:
                positions[state.partition] = state.position_at_visit
        return positions
