"""What is told of a running consumer: its status, its summary at the end, and stalls in the log.

Called by the owner, so that all of a status is from one moment. A record that holds its partition back is named in the
log, once, and so is its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from seamark.errors import SeamarkError, error_text
from seamark.parallel.core.engine import Engine
from seamark.parallel.core.ports import SetAside
from seamark.parallel.core.stall import Stall
from seamark.parallel.core.work import InFlightRecord
from seamark.parallel.observe.status import (
    CommitStatus,
    ParkedRecord,
    PartitionStatus,
    StallStatus,
    State,
    Status,
    Summary,
)
from seamark.parallel.pools.pool import Pool
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.parallel")

# How often stalls are looked for.
_LOOK_S = 1.0
_SHORTEST_LOOK_S = 0.05


class Reported(Protocol):
    """The runtime of a consumer, as far as its report needs one."""

    engine: Engine
    pool: Pool
    clock: Callable[[], float]
    started: float
    reason: str | None
    last_error: str | None

    @property
    def last_commit_s(self) -> float:
        """How long the last commit took."""

    def log_ends(self) -> Mapping[TopicPartition, int]: ...

    def set_aside(self) -> Sequence[SetAside]: ...


def status_of(runtime: Reported, state: State, group: str) -> Status:
    engine = runtime.engine
    now = runtime.clock()
    holding = with_places(engine.stalls(now, after=0.0), engine, runtime.pool)
    stalls = tuple(held for held in holding if held.stall.age >= engine.settings.stall_after)
    return Status(
        state=state,
        group=group,
        partitions=_partitions(runtime),
        tally=engine.counters.as_dict(),
        stalls=stalls,
        holding=tuple(holding),
        set_aside=tuple(runtime.set_aside()),
        parked=tuple(_parked(work, now) for work in engine.outcomes.parked),
        running=engine.lanes.calls,
        waiting=engine.lanes.waiting_count,
        retrying=len(engine.outcomes.retries),
        held_bytes=engine.budget.held_bytes,
        held_records=engine.budget.held_records,
        buffer_bytes=engine.budget.max_bytes,
        commits=_commits(runtime, now),
        uptime=now - runtime.started,
        last_error=runtime.last_error,
        reason=runtime.reason,
    )


def final_report(runtime: Reported, state: State, group: str) -> tuple[Summary, Status]:
    """What is left of a consumer that has ended, however it ended."""
    try:
        return summary_of(runtime), status_of(runtime, state, group)
    except SeamarkError:
        # A committer that cannot compute cannot tell how far it got either.
        tally, seconds = runtime.engine.counters.as_dict(), runtime.clock() - runtime.started
        ended = Status(state, group, tally=tally, uptime=seconds, last_error=runtime.last_error, reason=runtime.reason)
        return Summary(runtime.reason, tally, seconds, {}), ended


def summary_of(runtime: Reported) -> Summary:
    engine = runtime.engine
    partitions = _partitions(runtime)
    in_flight = sum(status.in_flight for status in partitions.values())
    refused = {
        partition: commit
        for partition, commit in engine.tickets.refused_last.items()
        if partition in partitions and partitions[partition].term == commit.term
    }
    errors = [str(commit.error or "missing in the response") for commit in refused.values()]
    return Summary(
        runtime.reason,
        engine.counters.as_dict(),
        runtime.clock() - runtime.started,
        {partition: status.committed for partition, status in partitions.items()},
        unfinished=in_flight + engine.awaiting_commit.uncommitted_count,
        lost=_lost(engine),
        not_committed={partition: commit.offset for partition, commit in refused.items()},
        commit_error=errors[-1] if errors else None,
    )


def _lost(engine: Engine) -> int:
    """At most once: what is committed, or about to be, and is not done and never will be."""
    if engine.settings.delivery != "at_most_once":
        return 0
    held = chain.from_iterable(map(engine.held, engine.assignments.terms()))
    return engine.counters.lost + engine.awaiting_commit.unanswered_count + sum(work.count for work in held)


def _partitions(runtime: Reported) -> dict[TopicPartition, PartitionStatus]:
    engine = runtime.engine
    frontiers = engine.committer.frontiers()
    committed = engine.committer.committed()
    paused = set(engine.budget.paused())
    ends = runtime.log_ends()
    statuses = {}
    for partition in sorted(engine.assignments.terms()):
        assignment, frontier = engine.assignments.get(partition), frontiers.get(partition)
        if assignment is None or frontier is None:
            continue
        statuses[partition] = PartitionStatus(
            partition=partition,
            term=assignment.term,
            committed=committed.get(partition, -1),
            frontier=frontier.frontier,
            position=assignment.position,
            in_flight=len(frontier),
            held_bytes=engine.budget.held_by(partition)[0],
            is_paused=partition in paused,
            is_draining=assignment.is_draining,
            log_end=ends.get(partition, -1),
        )
    return statuses


def _commits(runtime: Reported, now: float) -> CommitStatus:
    tickets = runtime.engine.tickets
    error = tickets.last_error
    return CommitStatus(
        accepted=tickets.accepted,
        refused=tickets.refused,
        is_under_way=tickets.is_under_way,
        failing_for=tickets.failing_for(now),
        last_error=None if error is None else str(error),
        last_seconds=runtime.last_commit_s,
        metadata_length=runtime.engine.committer.metadata_length,
    )


def _parked(work: InFlightRecord, now: float) -> ParkedRecord:
    error = None if work.error is None else error_text(work.error)
    return ParkedRecord(work.partition, work.offset, work.attempts, error, now - work.begun)


def with_places(stalls: Iterable[Stall], engine: Engine, pool: Pool) -> list[StallStatus]:
    """Each with the place where the record's handler stands."""
    frontiers = engine.committer.frontiers()
    statuses = []
    for stall in stalls:
        frontier = frontiers.get(stall.partition)
        work = frontier.item(stall.offset) if frontier is not None else None
        statuses.append(StallStatus(stall, pool.stands_at(work) if work is not None else None))
    return statuses


class _Told(NamedTuple):
    term: int
    offset: int
    since: float


class StallLog:
    """A warning when a record has held its partition back for the stall limit, a line when the partition moves on."""

    def __init__(self, engine: Engine, pool: Pool) -> None:
        self._engine = engine
        self._pool = pool
        self._after = engine.settings.stall_after
        self._next_look = -math.inf
        self._told: dict[TopicPartition, _Told] = {}
        engine.stall_watch.has_begun = lambda work: pool.stands_at(work) is not None

    def look(self, now: float) -> None:
        if now < self._next_look:
            return
        # Also without a limit: it is by looking that the watch learns when frontiers move.
        self._next_look = now + min(_LOOK_S, max(self._after / 4, _SHORTEST_LOOK_S))
        stalls = {stall.partition: stall for stall in self._engine.stalls(now)}
        terms = self._engine.assignments.terms()
        for partition, told in list(self._told.items()):
            stall = stalls.get(partition)
            if stall is None or (terms.get(partition), stall.offset) != told[:2]:
                del self._told[partition]
                self._say_over(partition, told, now, is_ours=partition in terms)
        news = [stall for stall in stalls.values() if stall.partition not in self._told]
        for status in with_places(news, self._engine, self._pool):
            stall = status.stall
            self._told[stall.partition] = _Told(terms[stall.partition], stall.offset, now - stall.age)
            _log.warning("%s", status)

    def _say_over(self, partition: TopicPartition, told: _Told, now: float, *, is_ours: bool) -> None:
        how = "moves on" if is_ours else "is no longer assigned to this consumer"
        _log.info("%s %s: offset %d held it back for %.1f s", partition, how, told.offset, now - told.since)
