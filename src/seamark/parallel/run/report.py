"""Makes the status of a running consumer; called by the owner, so that all of it is from one moment."""

from __future__ import annotations

from itertools import chain

from seamark.errors import SeamarkError
from seamark.parallel.core.engine import Engine
from seamark.parallel.core.work import Work
from seamark.parallel.observe.status import CommitStatus, ParkedRecord, PartitionStatus, State, Status, Summary
from seamark.parallel.run.runtime import Runtime
from seamark.parallel.run.stall_log import with_places
from seamark.topic_partition import TopicPartition


def status_of(runtime: Runtime, state: State, group: str) -> Status:
    engine = runtime.engine
    now = runtime.clock()
    holding = with_places(engine.stalls(now, after=0.0), engine, runtime.pool)
    stalls = tuple(each for each in holding if each.stall.age >= engine.settings.stall_after)
    return Status(
        state=state,
        group=group,
        partitions=_partitions(runtime),
        tally=engine.tally.as_dict(),
        stalls=stalls,
        holding=tuple(holding),
        set_aside=tuple(runtime.set_aside()),
        parked=tuple(_parked(work, now) for work in engine.endings.parked),
        running=engine.lanes.calls,
        waiting=engine.lanes.waiting_count,
        retrying=len(engine.endings.retries),
        held_bytes=engine.budget.held_bytes,
        held_records=engine.budget.held_records,
        buffer_bytes=engine.budget.max_bytes,
        commits=_commits(runtime, now),
        uptime=now - runtime.started,
        last_error=runtime.last_error,
        reason=runtime.reason,
    )


def last_words(runtime: Runtime, state: State, group: str) -> tuple[Summary, Status]:
    """What is left of a consumer that has ended, however it ended."""
    try:
        return summary_of(runtime), status_of(runtime, state, group)
    except SeamarkError:
        # A committer that cannot compute cannot tell how far it got either.
        tally, seconds = runtime.engine.tally.as_dict(), runtime.clock() - runtime.started
        ended = Status(state, group, tally=tally, uptime=seconds, last_error=runtime.last_error, reason=runtime.reason)
        return Summary(runtime.reason, tally, seconds, {}), ended


def summary_of(runtime: Runtime) -> Summary:
    engine = runtime.engine
    partitions = _partitions(runtime)
    in_flight = sum(each.in_flight for each in partitions.values())
    refused = {
        partition: each
        for partition, each in engine.tickets.refused_last.items()
        if partition in partitions and partitions[partition].term == each.term
    }
    errors = [str(each.error or "the answer does not mention it") for each in refused.values()]
    return Summary(
        runtime.reason,
        engine.tally.as_dict(),
        runtime.clock() - runtime.started,
        {partition: each.committed for partition, each in partitions.items()},
        unfinished=in_flight + engine.withheld.uncommitted_count,
        lost=_lost(engine),
        not_committed={partition: each.offset for partition, each in refused.items()},
        commit_error=errors[-1] if errors else None,
    )


def _lost(engine: Engine) -> int:
    """At most once: what is committed, or about to be, and is not done and never will be."""
    if engine.settings.delivery != "at_most_once":
        return 0
    held = chain.from_iterable(map(engine.held, engine.stays.terms()))
    return engine.tally.lost + engine.withheld.unanswered_count + sum(work.count for work in held)


def _partitions(runtime: Runtime) -> dict[TopicPartition, PartitionStatus]:
    engine = runtime.engine
    frontiers = engine.committer.frontiers()
    committed = engine.committer.committed()
    paused = set(engine.budget.paused())
    ends = runtime.log_ends()
    found = {}
    for partition in sorted(engine.stays.terms()):
        stay, frontier = engine.stays.get(partition), frontiers.get(partition)
        if stay is None or frontier is None:
            continue
        found[partition] = PartitionStatus(
            partition=partition,
            term=stay.term,
            committed=committed.get(partition, -1),
            frontier=frontier.frontier,
            position=stay.position,
            in_flight=len(frontier),
            held_bytes=engine.budget.held_by(partition)[0],
            is_paused=partition in paused,
            is_draining=stay.is_draining,
            log_end=ends.get(partition, -1),
        )
    return found


def _commits(runtime: Runtime, now: float) -> CommitStatus:
    tickets = runtime.engine.tickets
    error = tickets.last_error
    return CommitStatus(
        accepted=tickets.accepted,
        refused=tickets.refused,
        is_under_way=tickets.is_under_way,
        failing_for=tickets.failing_for(now),
        last_error=None if error is None else str(error),
        last_seconds=runtime.news.last_seconds,
        metadata_length=runtime.engine.committer.metadata_length,
    )


def _parked(work: Work, now: float) -> ParkedRecord:
    error = None if work.error is None else f"{type(work.error).__name__}: {work.error}"
    return ParkedRecord(work.partition, work.offset, work.attempts, error, now - work.begun)
