"""A polled record on its way, what the scheduler wants done with it, and what happened so far, counted.

An ``InFlightRecord`` says where a record came from, what it costs, how often it was tried and in which state it is. One
is made per record, so it is a plain slotted class. It belongs to the one owner of the scheduler; handlers see only
``record``. Actions are plain values, carried out in order by the shell that owns threads and the port.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

from seamark.parallel.core.ports import ToCommit
from seamark.topic_partition import TopicPartition


class RecordState(enum.Enum):
    """Where a record stands; it leaves by being done, given up, or dropped with its partition.

    WAITING for its turn, or for its commit if that comes first · RUNNING in a handler · RETRYING: waiting for its next
    attempt · DEAD_LETTERING: being written to the dead-letter topic · PARKED until somebody decides · OVER.
    """

    WAITING = "waiting"
    RUNNING = "running"
    RETRYING = "waiting for a retry"
    DEAD_LETTERING = "being written to the dead-letter topic"
    PARKED = "parked"
    OVER = "over"


# A global name is found in half the time that an attribute of an enum takes, and this one is needed for every record.
_WAITING = RecordState.WAITING


class InFlightRecord:
    # Of a record by itself. Not slots: nothing is stored for each.
    offsets: list[int] | None = None
    count = 1

    __slots__ = (
        "alone",
        "attempts",
        "error",
        "lane",
        "offset",
        "partition",
        "record",
        "since",
        "size_bytes",
        "started",
        "state",
        "term",
    )

    def __init__(
        self,
        partition: TopicPartition,
        term: int,
        offset: int,
        record: Any,
        lane: Hashable = None,
        size_bytes: int = 0,
        since: float = 0.0,
    ) -> None:
        self.partition = partition
        self.term = term
        self.offset = offset
        self.record = record
        # What it must not overtake; None if it may overtake anything.
        self.lane = lane
        self.size_bytes = size_bytes
        # When it was polled, and when its first attempt was handed to a handler.
        self.since = since
        self.started: float | None = None
        self.attempts = 0
        self.state = _WAITING
        self.error: BaseException | None = None
        # Set when its batch failed: it is then run by itself, so that one bad record is not blamed on the others.
        self.alone = False

    @property
    def begun(self) -> float:
        """When its first attempt was handed to a handler, or when it was polled if none was."""
        return self.since if self.started is None else self.started

    def __repr__(self) -> str:
        where = f"{self.partition} @ {self.offset}"
        return f"InFlightRecord({where}, term={self.term}, {self.state.value}, attempts={self.attempts})"


class ColumnSlice(InFlightRecord):
    """Records that are handled as columns: ``record`` is a piece of columns, ``offsets`` are those of its rows."""

    __slots__ = ("count", "offsets")
    offsets: list[int]
    count: int

    def __init__(
        self,
        partition: TopicPartition,
        term: int,
        offsets: list[int],
        record: Any,
        lane: Hashable = None,
        size_bytes: int = 0,
        since: float = 0.0,
    ) -> None:
        super().__init__(partition, term, offsets[0], record, lane, size_bytes, since)
        self.offsets = offsets
        self.count = len(offsets)


@dataclass(frozen=True, slots=True)
class FailedCall:
    """What was decided about the records of a call that failed, when it was decided: they may run again at once.

    ``first`` is the first that stays here, or the first of all if none does; ``state`` is RUNNING then, or OVER if
    somebody has given it up. ``count`` is of all records of the call.
    """

    first: InFlightRecord
    count: int
    state: RecordState
    attempts: int


class StartCall(NamedTuple):
    """Call the handler with these records; report ``succeeded`` or ``failed`` with this very action."""

    works: Sequence[InFlightRecord]


def calls_of_one(works: Iterable[InFlightRecord]) -> list[StartCall]:
    """A call for each. Made in compiled code, as one is needed for every record."""
    return list(map(tuple.__new__, repeat(StartCall), zip(zip(works))))


class PausePartitions(NamedTuple):
    partitions: Sequence[TopicPartition]


class ResumePartitions(NamedTuple):
    partitions: Sequence[TopicPartition]


class CommitOffsets(NamedTuple):
    """Commit, and report ``commit_finished`` with the ticket. ``must_wait``: nothing else happens before the answer."""

    ticket: int
    offsets: Mapping[TopicPartition, ToCommit]
    must_wait: bool = False


class StopReason(NamedTuple):
    """Why the consumer cannot go on, and the error behind that, if there is one."""

    text: str
    cause: BaseException | None


class WriteDeadLetter(NamedTuple):
    """Write the record to ``topic`` and report ``dead_letter_written``; ``error`` is why it was given up."""

    work: InFlightRecord
    topic: str
    error: BaseException


class Stopped(NamedTuple):
    """The last action: leave the group. ``reason`` is None if the stop was asked for, ``cause`` the error behind it."""

    reason: str | None
    cause: BaseException | None = None


Action: TypeAlias = StartCall | PausePartitions | ResumePartitions | CommitOffsets | WriteDeadLetter | Stopped


@dataclass(slots=True)
class Counters:
    """``spared``: not run again thanks to an earlier commit's map. ``late``: ended after their partition had gone.

    ``lost``: at most once, committed and dropped with their partition before their handler had begun, or parked.
    ``unowned``: polled of a partition that is not ours or is going. ``foreign_metadata``: commits whose metadata was
    somebody else's, damaged or too new, and was left alone.
    """

    polled: int = 0
    done: int = 0
    failed: int = 0
    retried: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    spared: int = 0
    late: int = 0
    lost: int = 0
    unowned: int = 0
    foreign_metadata: int = 0

    def as_dict(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)}
