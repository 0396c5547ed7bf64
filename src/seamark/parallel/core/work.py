"""One polled record on its way: where it came from, what it costs, how often it was tried and where it stands.

Made once per record, so it is a plain slotted class. It belongs to the one owner of the scheduler; handlers see only
``record``.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from seamark.topic_partition import TopicPartition


class Where(enum.Enum):
    """Where a record stands; it leaves by being done, given up, or dropped with its partition.

    WAITING for its turn, or for its commit if that comes first · RUNNING in a handler · RETRYING: waiting for its next
    attempt · DEAD_LETTERING: being written to the dead-letter topic · PARKED until somebody decides · OVER.
    """

    WAITING = "waiting"
    RUNNING = "running"
    RETRYING = "waiting for a retry"
    DEAD_LETTERING = "on its way to the dead-letter topic"
    PARKED = "parked"
    OVER = "over"


# A global name is found in half the time that an attribute of an enum takes, and this one is needed for every record.
_WAITING = Where.WAITING


class Work:
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
        "term",
        "where",
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
        self.where = _WAITING
        self.error: BaseException | None = None
        # Set when its batch failed: it is then run by itself, so that one bad record is not blamed on the others.
        self.alone = False

    @property
    def begun(self) -> float:
        """When its first attempt was handed to a handler, or when it was polled if none was."""
        return self.since if self.started is None else self.started

    def __repr__(self) -> str:
        return f"Work({self.partition} @ {self.offset}, term={self.term}, {self.where.value}, attempts={self.attempts})"


class Piece(Work):
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

    ``first`` is the first that stays here, or the first of all if none does; ``where`` is RUNNING then, or OVER if
    somebody has given it up. ``count`` is of all records of the call.
    """

    first: Work
    count: int
    where: Where
    attempts: int
