"""What the scheduler wants done: plain values, carried out in order by the shell that owns threads and the port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple, TypeAlias

from seamark.parallel.core.ports import ToCommit
from seamark.parallel.core.work import Work
from seamark.topic_partition import TopicPartition


class StartCall(NamedTuple):
    """Call the handler with these records; report ``succeeded`` or ``failed`` with this very action."""

    works: Sequence[Work]


def calls_of_one(works: Iterable[Work]) -> list[StartCall]:
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

    work: Work
    topic: str
    error: BaseException


class Stopped(NamedTuple):
    """The last action: leave the group. ``reason`` is None if the stop was asked for, ``cause`` the error behind it."""

    reason: str | None
    cause: BaseException | None = None


Action: TypeAlias = StartCall | PausePartitions | ResumePartitions | CommitOffsets | WriteDeadLetter | Stopped
