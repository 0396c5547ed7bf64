"""The port between a consumer and what fetches its records.

A consumer says what to fetch, from where, and under which term; a fetcher fetches ahead on the I/O thread and keeps
what it has until the caller takes it. What is taken is the caller's: a fetcher forgets it. What is only shown is still
the fetcher's.

Threads: ``start``, ``stop``, ``pause``, ``resume`` and ``close`` are called on the I/O thread, ``take…`` and ``show``
on the caller's. ``start`` and ``stop`` for a partition that is being taken from come only while the caller
waits for the I/O thread, so that nothing is handed out of a partition that was stopped. User code (deserializers) runs
inside ``take`` and ``show``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from seamark.client.core.assignment_state import Position
from seamark.client.records import Record
from seamark.topic_partition import TopicPartition

# Positions behind the last thing taken or skipped, with their terms.
Moved = Mapping[TopicPartition, tuple[int, Position]]


class FailureKind(Enum):
    # The position is below the start or above the end of the log.
    OUT_OF_RANGE = "out of range"
    # The leader says that the log was truncated below the position; ``position`` is where the logs part.
    DIVERGED = "diverged"
    # Anything else that the caller must hear of: ``error`` is raised from poll, the position stays.
    ERROR = "error"


class FetchFailure(NamedTuple):
    """Why a partition cannot go on; reported once everything fetched before it was taken."""

    partition: TopicPartition
    term: int
    kind: FailureKind
    position: Position
    error: Exception | None = None


class Taken(NamedTuple):
    """What the caller gets; ``positions`` are those behind the last thing taken (or skipped), with their terms.

    Positions move also without records: control batches and aborted transactions are skipped.
    """

    records: Sequence[Record] = ()
    positions: Mapping[TopicPartition, tuple[int, Position]] = {}
    failures: Sequence[FetchFailure] = ()


class TakenColumns(NamedTuple):
    """As Taken, with a pyarrow.RecordBatch in place of the records, or None if there was nothing."""

    batch: Any = None
    positions: Mapping[TopicPartition, tuple[int, Position]] = {}
    failures: Sequence[FetchFailure] = ()


class Fetcher(Protocol):
    def start(self, partition: TopicPartition, position: Position, term: int) -> None:
        """Fetch the partition from here; replaces what was fetched or asked for before."""

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop what was fetched and fetch no more; partitions that are not fetched are ignored."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep what was fetched, hand nothing out and fetch no more until ``resume``."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None: ...

    def take(self, max_records: int) -> Taken:
        """Up to so many records that are here already; never waits."""

    def take_columns(self, max_bytes: int) -> TakenColumns:
        """As ``take``, as columns."""

    def show(self, max_records: int) -> Taken:
        """As ``take``, of one partition, without taking the records: ``take_shown`` does that, one or more at a time.

        They are given again by ``take``, ``take_columns`` and ``show``, which end what was shown before.
        """

    def take_shown(self, count: int) -> Moved:
        """The next so many of the records that were shown last are the caller's; gives the position behind them."""

    @property
    def has_something(self) -> bool:
        """Would ``take`` give records or failures?"""

    def on_arrival(self, function: Callable[[], None]) -> None:
        """Call this on the I/O thread whenever ``has_something`` may have become true."""

    def metadata_changed(self) -> None:
        """Leaders may have moved; what is fetched stays, what is asked for may have to be asked elsewhere."""

    def metrics(self) -> Mapping[str, float]:
        """Fetch metrics by their Prometheus names."""

    async def close(self) -> None:
        """End sessions and requests."""
