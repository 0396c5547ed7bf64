"""The stall watch: names the record that holds a partition's frontier back, and says for how long it has done so.

Only the first record in flight of a partition can hold it back, so a look costs one step per partition however much is
in flight. How long a partition is held counts from the later of two moments: when its frontier last moved, and when the
first attempt at that record began. So a backlog is no stall, however old its records are: each has its turn, and the
frontier moves. Retries, parking and the way to the dead-letter topic do count: the record had its handler.

A record that no handler has begun is held up by the others. It counts from the end of the last handler call, whichever
that was: as long as calls end, its turn comes. While handlers are free it waits for its batch to fill, or everything is
stopping, and that is no stall at all. What waits behind a call that was given up and has not ended counts from when the
frontier got there: that call has the key, and nobody knows when it ends.

When a frontier moved is known to a look's distance: see ``StallLog``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from seamark.counts import counted
from seamark.errors import error_text
from seamark.parallel.core.committer import OffsetCommitter
from seamark.parallel.core.lanes import Lanes
from seamark.parallel.core.work import InFlightRecord, RecordState
from seamark.readable_text import readable
from seamark.topic_partition import TopicPartition

# A key may be a whole document; a log line shows its beginning.
_SHOWN_KEY = 80


class Stall(NamedTuple):
    """A record that holds its partition back, for ``age`` seconds.

    ``waiting`` is how many offsets, done or not, were polled behind it; ``error`` is that of its last attempt.
    """

    partition: TopicPartition
    offset: int
    key: Any
    age: float
    attempts: int
    state: RecordState
    waiting: int
    error: str | None = None

    def __str__(self) -> str:
        key = repr(self.key)
        shown = key if len(key) <= _SHOWN_KEY else key[:_SHOWN_KEY] + "…"
        last = f", last error {self.error}" if self.error else ""
        return readable(
            f"{self.partition} has been held at offset {self.offset} (key {shown}) for {self.age:.1f} s: "
            f"{self.state.value}, attempts {self.attempts}{last}; {counted(self.waiting, 'offset')} behind it"
        )


class _Held(NamedTuple):
    """Which record held a partition at the last look, and the moment from which that counts."""

    term: int
    offset: int
    since: float
    is_untried: bool


class StallWatch:
    def __init__(self, committer: OffsetCommitter[TopicPartition], lanes: Lanes, concurrency: int, now: float) -> None:
        self._committer = committer
        self._lanes = lanes
        self._concurrency = concurrency
        self._held: dict[TopicPartition, _Held] = {}
        # When a handler call last ended.
        self.last_end = now
        # Whether a handler is at work on a record of a call that is under way; a shell that queues calls knows better.
        self.has_begun: Callable[[InFlightRecord], bool] = lambda work: True  # noqa: ARG005 - a shell without a queue

    def holding(self, now: float, after: float = 0.0) -> list[Stall]:
        """The records that have held their partitions back for ``after`` seconds or longer; the longest first."""
        before, self._held = self._held, {}
        stalls = []
        for partition, frontier in self._committer.frontiers().items():
            work: InFlightRecord | None = frontier.first
            if work is None:
                continue
            is_waiting = work.state is RecordState.WAITING or (
                work.state is RecordState.RUNNING and not self.has_begun(work)
            )
            is_untried = is_waiting and work.error is None
            since = self._counts_from(work, now) if is_untried else work.begun
            last = before.get(partition)
            if last is not None:
                is_same = (last.term, last.offset, last.is_untried) == (work.term, work.offset, is_untried)
                # What changed since the last look changed just now, for all that is known.
                since = max(since, last.since if is_same else now)
            self._held[partition] = _Held(work.term, work.offset, since, is_untried)
            if now - since >= after:
                state = RecordState.WAITING if is_waiting else work.state
                stalls.append(_stall(work, now - since, state, frontier.position - work.offset - 1))
        return sorted(stalls, key=lambda stall: -stall.age)

    def _counts_from(self, work: InFlightRecord, now: float) -> float:
        """For a record that no handler has begun."""
        if self._is_behind_a_call(work):
            return work.since
        return max(work.since, self.last_end) if self._lanes.calls >= self._concurrency else now

    def _is_behind_a_call(self, work: InFlightRecord) -> bool:
        """Whether a call under way has the record's key: one of an earlier record that was given up, or is late."""
        if work.lane is None or work.state is not RecordState.WAITING:
            return False
        return any(
            other.lane == work.lane and other.partition == work.partition and other is not work
            for other in self._lanes.running()
        )


def _stall(work: InFlightRecord, age: float, state: RecordState, waiting: int) -> Stall:
    error = error_text(work.error) if work.error is not None else None
    key = getattr(work.record, "key", None)
    return Stall(work.partition, work.offset, key, age, work.attempts, state, waiting, error)
