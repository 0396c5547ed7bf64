"""The stall watch: names the record that holds a partition's frontier back.

Only the first record in flight of a partition can hold it back, so a look costs one step per partition however much is
in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from seamark.counts import counted
from seamark.parallel.frontier import Frontier
from seamark.parallel.work import Where, Work
from seamark.topic_partition import TopicPartition

# A key may be a whole document; a log line shows its beginning.
_SHOWN_KEY = 80


class Stall(NamedTuple):
    """``waiting`` is how many offsets, done or not, were polled behind it; ``error`` is that of its last attempt."""

    partition: TopicPartition
    offset: int
    key: Any
    age: float
    attempts: int
    where: Where
    waiting: int
    error: str | None = None

    def __str__(self) -> str:
        key = repr(self.key)
        shown = key if len(key) <= _SHOWN_KEY else key[:_SHOWN_KEY] + "…"
        last = f", last error {self.error}" if self.error else ""
        return (
            f"{self.partition} is held at offset {self.offset} (key {shown}) for {self.age:.1f} s: "
            f"{self.where.value}, attempts {self.attempts}{last}; {counted(self.waiting, 'offset')} behind it"
        )


def holding_back(frontiers: Mapping[TopicPartition, Frontier[Work]], now: float, after: float = 0.0) -> list[Stall]:
    """The first record in flight of each partition, if polled ``after`` seconds ago or earlier; the oldest first."""
    stalls = []
    for partition, frontier in frontiers.items():
        work = frontier.first
        if work is None or now - work.since < after:
            continue
        error = f"{type(work.error).__name__}: {work.error}" if work.error is not None else None
        stalls.append(
            Stall(
                partition,
                work.offset,
                getattr(work.record, "key", None),
                now - work.since,
                work.attempts,
                work.where,
                frontier.position - work.offset - 1,
                error,
            )
        )
    return sorted(stalls, key=lambda stall: -stall.age)
