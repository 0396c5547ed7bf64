"""The scheduler of a parallel consumer without threads, loops or sockets: events come in, actions go out.

Owns how frontier, lanes, retries, budget and commits play together. One owner calls it; each event is given the time
and returns the actions that follow. The invariants, which a simulation checks after every step: a polled record is run
until it is over or its partition goes; of one key one call is under way; a commit never passes a record that is not
over; what an older term reports changes nothing.

Delivery. At least once: a record is over when its handler is through with it. At most once: records wait until the
commit behind them is accepted, and are run once. Whole batch: as at least once, committed poll by poll.

A batch that fails is taken apart and its records run one by one, so that one bad record is not blamed on the others;
this costs no attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from seamark.parallel.core.assignments import Assignments, AwaitingCommit
from seamark.parallel.core.budget import Budget
from seamark.parallel.core.commits import CommitTickets
from seamark.parallel.core.committer import OffsetCommitter
from seamark.parallel.core.frontier import InvariantViolation
from seamark.parallel.core.intake import Intake
from seamark.parallel.core.lanes import Lanes, Starts
from seamark.parallel.core.outcomes import RecordOutcomes
from seamark.parallel.core.ports import Committed, Polled, PolledColumns
from seamark.parallel.core.stall import Stall, StallWatch
from seamark.parallel.core.work import (
    Action,
    Counters,
    FailedCall,
    InFlightRecord,
    PausePartitions,
    RecordState,
    ResumePartitions,
    StartCall,
    Stopped,
    StopReason,
    WriteDeadLetter,
)
from seamark.parallel.settings import DeadLetter, Retry, Settings
from seamark.topic_partition import TopicPartition


@dataclass(slots=True)
class _Stopping:
    """``reason`` is None if somebody asked for the stop."""

    reason: StopReason | None
    deadline: float
    final_ticket: int | None = None


class Engine:
    def __init__(
        self,
        settings: Settings,
        now: float,
        *,
        chance: Callable[[], float],
        seconds: Callable[[], float] | None = None,
        ahead: int = 0,
    ) -> None:
        """``chance`` gives numbers from 0 to 1 for jitter; ``seconds`` measures the committer's runs.

        ``ahead`` calls are started beyond ``concurrency``, for a shell that keeps them until a handler is free.
        """
        self.settings = settings
        self.counters = Counters()
        self._is_at_most_once = settings.delivery == "at_most_once"
        self._committer: OffsetCommitter[TopicPartition] = OffsetCommitter(
            metadata_length=settings.metadata_length,
            whole_polls=settings.delivery == "whole_batch",
            at_once=self._is_at_most_once,
            seconds=seconds or (lambda: 0.0),
        )
        self.tickets = CommitTickets(self._committer, settings.commit, now)
        self._lanes = Lanes(settings.concurrency + ahead)
        self.stall_watch = StallWatch(self._committer, self._lanes, settings.concurrency, now)
        self._starts = Starts(self._lanes, settings.batch)
        self._budget = Budget(settings.buffer_bytes, settings.buffer_records)
        self._outcomes = RecordOutcomes(
            self._committer,
            self._lanes,
            self._budget,
            self.counters,
            # A second attempt would be a second delivery.
            retry=Retry(attempts=1) if self._is_at_most_once else settings.retry,
            then=settings.then,
            chance=chance,
        )
        self.assignments = Assignments(self._committer)
        self.awaiting_commit = AwaitingCommit()
        self._intake = Intake(
            settings,
            self.assignments,
            self._committer,
            self._lanes,
            self._outcomes,
            self._budget,
            self.awaiting_commit,
            self.counters,
            drop_waiting=self._drop_waiting,
        )
        self.last_failure: FailedCall | None = None
        self._stopping: _Stopping | None = None
        self._is_over = False

    # What the group says.

    def assigned(self, committed: Mapping[TopicPartition, Committed], now: float) -> list[Action]:
        for partition, offset in committed.items():
            self._end_assignment(partition)
            self.counters.foreign_metadata += self.assignments.begin_from(partition, offset)
            self._budget.assigned([partition])
        return self._step(now)

    def revoked(self, partitions: Iterable[TopicPartition], now: float) -> list[Action]:
        """These are to go: start nothing more of them. When ``is_drained``, or the time is up, call ``release``."""
        for partition in partitions:
            assignment = self.assignments.get(partition)
            if assignment is not None:
                assignment.is_draining = True
                if self._is_at_most_once:
                    # What is committed already runs now or never.
                    self._budget.give_back_works(self.awaiting_commit.drop(partition))
                else:
                    self._drop_waiting(partition)
        return self._step(now)

    def is_drained(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether nothing of these is running, being written, or committed and still to be run."""
        going = set(partitions)
        busy = (*self._lanes.running(), *self._outcomes.dead_lettering)
        if any(work.partition in going and self.assignments.is_live(work) for work in busy):
            return False
        return not self._is_at_most_once or not any(map(self._lanes.has_waiting, going))

    def release(self, partitions: Iterable[TopicPartition], now: float) -> list[Action]:
        """Commit what is over and let go; results that come later are late."""
        actions: list[Action] = []
        self._commit(now, actions, must_wait=True)
        for partition in partitions:
            self._end_assignment(partition)
        return actions + self._step(now)

    def lost(self, partitions: Iterable[TopicPartition], now: float) -> list[Action]:
        """These are somebody else's already: nothing is committed."""
        for partition in partitions:
            self._end_assignment(partition)
        return self._step(now)

    # What came and what became of it.

    def polled(self, polled: Polled, now: float) -> list[Action]:
        self._intake.records(polled, now)
        return self._step(now)

    def polled_columns(self, columns: PolledColumns, now: float) -> list[Action]:
        """As ``polled``, for handlers of columns: nothing is made per record."""
        self._intake.columns(columns, now)
        return self._step(now)

    def succeeded(self, call: StartCall, now: float) -> list[Action]:
        return self.succeeded_all([call], now)

    def succeeded_all(self, calls: Sequence[StartCall], now: float) -> list[Action]:
        """As ``succeeded`` for each; a shell that reports what came together saves a step per call."""
        over = RecordState.OVER
        self.stall_watch.last_end = now
        # Partition by partition: a look-up for each record would cost as much as all the rest.
        for partition, works in self._lanes.end_calls(calls).items():
            assignment = self.assignments.get(partition)
            term = assignment.term if assignment is not None else None
            done = [work for work in works if work.term == term and work.state is not over]
            if len(done) < len(works):
                self.counters.late += sum(work.count for work in works if work.term != term)
            if done:
                self.tickets.ended(self._outcomes.done(done))
            self._lanes.release(works)
            self._budget.give_back_all(partition, works)
        return self._step(now)

    def failed(self, call: StartCall, error: BaseException, now: float) -> list[Action]:
        """The handler raised, timed out or died; whatever it did, its records are not done."""
        letters: list[WriteDeadLetter] = []
        self.stall_watch.last_end = now
        self._lanes.hold(call.works)
        self.counters.late += sum(work.count for work in call.works if not self.assignments.is_live(work))
        self.counters.failed += 1
        staying = self._let_go(call.works, self._is_ours)
        count = sum(work.count for work in call.works)
        if any(work.offsets is not None for work in staying):
            staying = self._intake.split_batch(staying)
        for work in staying:
            work.state = RecordState.WAITING
            work.error = error
            work.alone = True
        if count > 1 and not self._is_at_most_once:
            self._lanes.retry(staying)
        else:
            self._judge(staying, error, now, letters)
        first = staying[0] if staying else call.works[0]
        self.last_failure = FailedCall(first, count, first.state, first.attempts)
        return [*letters, *self._step(now)]

    def withdrawn(self, calls: Iterable[StartCall], now: float) -> list[Action]:
        """These calls were never begun. What may run waits again; the rest is dropped, unfinished."""
        for call in calls:
            self._lanes.hold(call.works)
            for work in call.works:
                if work.error is None:
                    work.started = None
            self._lanes.retry(
                self._let_go(
                    call.works, lambda work: self.assignments.may_run(work) and work.state is not RecordState.OVER
                )
            )
        return self._step(now)

    def _let_go(
        self, works: Sequence[InFlightRecord], is_kept: Callable[[InFlightRecord], bool]
    ) -> list[InFlightRecord]:
        """Of the records of a call that is over, those that are kept; the others are let go, and their lanes opened."""
        staying = [work for work in works if is_kept(work)]
        if len(staying) < len(works):
            kept, kept_lanes = set(staying), {(work.partition, work.lane) for work in staying}
            going = [work for work in works if work not in kept]
            self._lanes.release([work for work in going if (work.partition, work.lane) not in kept_lanes])
            self._budget.give_back_works(going)
        return staying

    def dead_letter_written(self, work: InFlightRecord, error: BaseException | None, now: float) -> list[Action]:
        self._stop_for(self._outcomes.written(work, error, is_live=self.assignments.is_live(work)), now)
        return self._step(now)

    def commit_finished(
        self, ticket: int, results: Mapping[TopicPartition, BaseException | None], now: float
    ) -> list[Action]:
        reason = self.tickets.finished(ticket, results, now)
        accepted, refused = self.awaiting_commit.answered(ticket, results)
        for work in accepted:
            if self.assignments.is_live(work):
                self._lanes.add([work])
            else:
                self.counters.lost += work.count
                self._budget.give_back_works([work])
        for work in refused:
            if self.assignments.may_run(work):
                self.awaiting_commit.wait_again(work, ticket)
            else:
                self._budget.give_back_works([work])
        self._stop_for(reason, now)
        return self._step(now)

    def tick(self, now: float) -> list[Action]:
        return self._step(now)

    def stop(self, now: float, drain: float | None = None, reason: StopReason | None = None) -> list[Action]:
        """Start nothing more, wait for what is running, commit, end. Asked again, the earlier deadline counts."""
        self._begin_stop(now, reason, drain)
        return self._step(now)

    # What an operator says.

    def skip(self, partition: TopicPartition, offset: int, now: float) -> list[Action]:
        """Let the frontier pass a record that holds it back; what its handler reports later is of no account."""
        self._stop_for(self._outcomes.skip(self._outcomes.decidable(partition, offset, self.assignments.is_live)), now)
        return self._step(now)

    def dead_letter(self, partition: TopicPartition, offset: int, now: float, topic: str | None = None) -> list[Action]:
        """Write the record to the dead-letter topic, then let the frontier pass it."""
        work = self._outcomes.decidable(partition, offset, self.assignments.is_live)
        policy = self.settings.then if isinstance(self.settings.then, DeadLetter) else DeadLetter()
        return [self._outcomes.send(work, topic or policy.topic_for(partition.topic)), *self._step(now)]

    def stalls(self, now: float, after: float | None = None) -> list[Stall]:
        """What has held partitions back for ``after`` seconds, or for the stall limit; to be asked now and then."""
        return self.stall_watch.holding(now, self.settings.stall_after if after is None else after)

    # What the shell reads.

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def is_stopping(self) -> bool:
        return self._stopping is not None

    @property
    def budget(self) -> Budget:
        return self._budget

    @property
    def lanes(self) -> Lanes:
        return self._lanes

    @property
    def outcomes(self) -> RecordOutcomes:
        return self._outcomes

    @property
    def committer(self) -> OffsetCommitter[TopicPartition]:
        return self._committer

    def held(self, partition: TopicPartition) -> set[InFlightRecord]:
        """All of the partition that runs, waits for its turn or is kept for a decision, and is not over."""
        held = (*self._lanes.held(partition), *self._outcomes.held(partition))
        return {work for work in held if self.assignments.is_live(work) and work.state is not RecordState.OVER}

    def next_at(self) -> float:
        """When ``tick`` has something to do at the latest."""
        stopping = self._stopping
        times = [self.tickets.next_at(), None if stopping is None else stopping.deadline]
        if stopping is None:
            times.append(self._outcomes.retries.next_at())
        if stopping is None or self._is_at_most_once:
            times.append(self._starts.next_at())
        return min(time for time in times if time is not None)

    # Assignments.

    def _end_assignment(self, partition: TopicPartition) -> None:
        if self.assignments.get(partition) is not None:
            if self._is_at_most_once:
                dropped = (
                    work for work in self.held(partition) if work.state in (RecordState.WAITING, RecordState.PARKED)
                )
                self.counters.lost += sum(work.count for work in dropped)
            self._drop_waiting(partition)
            self.assignments.end(partition)
            self._budget.released([partition])

    def _drop_waiting(self, partition: TopicPartition, since: int = 0) -> None:
        """Forget what is not running of the partition; it stays in flight, so it is not committed."""
        self._budget.give_back_works(self._lanes.drop(partition, since))
        held = self._outcomes.drop(partition, since)
        if since:
            self._lanes.release(held)
            self._outcomes.release_orphans(partition, since)
        self._budget.give_back_works(held)
        self._budget.give_back_works(self.awaiting_commit.drop(partition, since))

    # Ends.

    def _is_ours(self, work: InFlightRecord) -> bool:
        if work.state is RecordState.OVER:
            return False
        # At most once nobody else will run it, so what becomes of it is decided here to the end.
        return self.assignments.is_live(work) if self._is_at_most_once else self.assignments.may_run(work)

    def _judge(
        self, works: Sequence[InFlightRecord], error: BaseException, now: float, letters: list[WriteDeadLetter]
    ) -> None:
        # Of records that shared a call and a lane the last keeps the lane closed; the lane must be opened only once.
        holders = {(work.partition, work.lane): work for work in works}
        for work in works:
            if holders[work.partition, work.lane] is not work:
                work.lane = None
            work.attempts += 1
            self._stop_for(self._outcomes.judge(work, error, now, letters), now)

    # Each step.

    def _begin_stop(self, now: float, reason: StopReason | None, drain: float | None = None) -> None:
        deadline = now + (self.settings.drain if drain is None else drain)
        if self._stopping is None:
            self._stopping = _Stopping(reason, deadline)
            self._intake.is_closed = True
        else:
            self._stopping.deadline = min(self._stopping.deadline, deadline)

    def _stop_for(self, reason: StopReason | None, now: float) -> None:
        if reason is not None:
            self._begin_stop(now, reason)

    def _step(self, now: float) -> list[Action]:
        actions: list[Action] = []
        if self._is_over:
            return actions
        if self._stopping is None:
            for work in self._outcomes.retries.take_due(now):
                self._lanes.retry([work])
            changes = self._budget.changes()
            if changes.pause:
                actions.append(PausePartitions(changes.pause))
            if changes.resume:
                actions.append(ResumePartitions(changes.resume))
        if self._stopping is None or self._is_at_most_once:
            actions += self._starts.calls(now)
        if self.tickets.is_due(now) or (self.awaiting_commit and self.tickets.may_hurry):
            self._commit(now, actions)
        if self._stopping is not None:
            self._finish_stop(self._stopping, now, actions)
        return actions

    def _commit(self, now: float, actions: list[Action], *, must_wait: bool = False) -> int | None:
        covered: list[InFlightRecord] = []
        if self._stopping is None:
            polls, covered = self.awaiting_commit.take()
            for poll in polls:
                self._committer.in_flight(poll.partition, poll.term, poll.offsets, None, poll.position)
        try:
            action = self.tickets.make(now, must_wait=must_wait or self.settings.commit.sync)
        except InvariantViolation as broken:
            # Nothing that is known can be trusted, so nothing more is committed.
            self._is_over = True
            actions.append(Stopped(f"the committer cannot continue: {broken}", broken))
            return None
        if action is None:
            # All that was polled is committed already.
            self._lanes.add(covered)
            return None
        self.awaiting_commit.sent(action.ticket, covered)
        actions.append(action)
        return action.ticket

    def _is_busy(self) -> bool:
        """Whether a stop waits for something; at most once, also for what is committed and not yet run."""
        if self._lanes.calls or self._outcomes.dead_lettering:
            return True
        return self._is_at_most_once and (self.tickets.is_under_way or self._lanes.ready_count > 0)

    def _finish_stop(self, stopping: _Stopping, now: float, actions: list[Action]) -> None:
        if self._is_over:
            return
        if now < stopping.deadline and self._is_busy():
            return
        if stopping.final_ticket is None:
            stopping.final_ticket = self._commit(now, actions, must_wait=True) or 0
        if not self._is_over and not self.tickets.has(stopping.final_ticket):
            self._is_over = True
            actions.append(Stopped(None) if stopping.reason is None else Stopped(*stopping.reason))
