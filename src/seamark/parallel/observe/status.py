"""What a parallel consumer says of itself: one frozen value, made by the owner between two events.

Everything in it is from the same moment, so sums agree. ``Summary`` is what is left when the consumer has ended.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.counts import counted, number_text
from seamark.parallel.core.ports import SetAside
from seamark.parallel.core.stall import Stall
from seamark.parallel.core.work import RecordState
from seamark.readable_text import readable
from seamark.topic_partition import TopicPartition

# A sentence is not a list.
_SHOWN_PARTITIONS = 3


class State(enum.Enum):
    """NEW: not started · RUNNING · STOPPING: draining · STOPPED as asked · FAILED: ended by itself, with a reason."""

    NEW = "new"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition that is ours. Offsets are exclusive; -1 where nothing is known yet.

    ``in_flight`` counts polled records that are not over, ``held_bytes`` what they cost. ``is_paused``: its fetching
    waits for room. ``is_draining``: it was revoked and its last handlers are running.
    """

    partition: TopicPartition
    term: int
    committed: int
    frontier: int
    position: int
    in_flight: int
    held_bytes: int
    is_paused: bool
    is_draining: bool
    # Where the log ended when it was last read.
    log_end: int = -1


@dataclass(frozen=True, slots=True)
class StallStatus:
    """The record that holds a partition back; ``stands_at`` is where its handler stands, None if none is running."""

    stall: Stall
    stands_at: str | None = None

    def __str__(self) -> str:
        return f"{self.stall}; its handler is at {self.stands_at}" if self.stands_at else str(self.stall)


@dataclass(frozen=True, slots=True)
class ParkedRecord:
    """A record that waits for ``skip``, ``dead_letter`` or a restart; ``age`` counts from its first attempt."""

    partition: TopicPartition
    offset: int
    attempts: int
    error: str | None
    age: float
    state: RecordState = RecordState.PARKED


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """``accepted`` and ``refused`` count partitions in commits; ``failing_for`` is 0.0 while commits are accepted."""

    accepted: int = 0
    refused: int = 0
    is_under_way: bool = False
    failing_for: float = 0.0
    last_error: str | None = None
    last_seconds: float = 0.0
    metadata_length: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """``tally`` has the fields of ``seamark.parallel.core.work.Counters``.

    ``holding`` are the records at the frontiers, with how long each has held its partition back, however short;
    ``stalls`` are those that have done so for the stall limit: see ``seamark.parallel.core.stall``. ``running`` counts
    handler calls under way, those that wait for a free handler included; ``waiting`` are records whose turn has not
    come. ``set_aside`` are partitions that are not read on, because a batch of theirs cannot be read. ``last_error`` is
    the last thing that went wrong, ``reason`` why the consumer ended by itself.
    """

    state: State
    group: str
    partitions: Mapping[TopicPartition, PartitionStatus] = field(default_factory=dict)
    tally: Mapping[str, int] = field(default_factory=dict)
    stalls: tuple[StallStatus, ...] = ()
    holding: tuple[StallStatus, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    parked: tuple[ParkedRecord, ...] = ()
    running: int = 0
    waiting: int = 0
    retrying: int = 0
    held_bytes: int = 0
    held_records: int = 0
    buffer_bytes: int = 0
    commits: CommitStatus = CommitStatus()
    uptime: float = 0.0
    last_error: str | None = None
    reason: str | None = None

    @property
    def in_flight(self) -> int:
        """Records that were polled and are not over."""
        return sum(partition.in_flight for partition in self.partitions.values())


@dataclass(frozen=True, slots=True)
class Summary:
    """How a parallel consumer ended; ``reason`` is None if it was asked to."""

    reason: str | None
    tally: Mapping[str, int]
    seconds: float
    committed: Mapping[TopicPartition, int]
    # Records that were polled and not over when it ended: they run again after a restart.
    unfinished: int = 0
    # At most once: records that were committed and not done, because they were not begun, were still running or had
    # failed and were kept. No restart runs them.
    lost: int = 0
    # Partitions whose last commit was refused, with the offset that it named: what was done since the one before runs
    # again. ``commit_error`` is the last answer.
    not_committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    commit_error: str | None = None

    @property
    def log_level(self) -> int:
        """What was lost or not committed is worth a warning, a reason to end an error."""
        if self.reason is not None:
            return logging.ERROR
        return logging.WARNING if self.lost or self.not_committed else logging.INFO

    def __str__(self) -> str:
        done, polled = self.tally.get("done", 0), self.tally.get("polled", 0)
        told = [
            f"{number_text(done)} of {counted(polled, 'record')} done in {self.seconds:.1f} s, "
            f"{number_text(self.unfinished)} unfinished"
        ]
        if self.lost:
            told.append(f"{number_text(self.lost)} committed but not processed, which at most once does not repeat")
        if self.not_committed:
            told.append(f"not committed: {self._not_committed()} (last error: {self.commit_error})")
        told.append("stopped on request" if self.reason is None else f"ended: {self.reason}")
        return readable("; ".join(told))

    def _not_committed(self) -> str:
        some = [f"{partition} up to offset {offset}" for partition, offset in sorted(self.not_committed.items())]
        more = len(some) - _SHOWN_PARTITIONS
        return ", ".join(some[:_SHOWN_PARTITIONS]) + (f" and {counted(more, 'more partition')}" if more > 0 else "")
