"""Handler calls and dead letters of one simulated member, with what the engine ought to count for them.

A call that ends is a fact of the world at once; the engine hears of it a moment later, together with others or alone,
and by then the partition may be gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from seamark.parallel.core.work import Action, Counters, InFlightRecord, RecordState, StartCall, WriteDeadLetter
from seamark.parallel.pools.process_calls import Ending
from seamark.simulation.parallel.log import SimulatedRecord
from seamark.simulation.parallel.processes import SimulatedProcesses, Surroundings
from seamark.simulation.parallel.truth import StayTruth, rows_of
from seamark.simulation.world.violations import InvariantViolated
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    from seamark.simulation.parallel.member import SimulatedMember

Report = Callable[[BaseException | None], None]


class Handlers(Protocol):
    """Runs calls: ``report`` is to be called once, with None or the error."""

    def start(self, member: SimulatedMember, records: list[SimulatedRecord], report: Report) -> None: ...

    def member_gone(self, member: SimulatedMember) -> None:
        """Its calls vanish with it."""


class _Begun(NamedTuple):
    """A call as it was when it was decided: the assignment of each of its records, and all its records."""

    call: StartCall
    assignments: list[StayTruth]
    records: list[SimulatedRecord]


class Calls:
    def __init__(self, member: SimulatedMember) -> None:
        self._member = member
        self._world = member.world
        self.under_way = 0
        self.letters_under_way = 0
        self.expected = Counters()
        self._waiting: deque[StartCall] = deque()
        # By the identity of the call, which has no hash.
        self._begun: dict[int, _Begun] = {}
        self._running = 0
        self._finished: list[_Begun] = []
        self._processes = self._start_processes() if self._world.processes else None

    @property
    def is_idle(self) -> bool:
        return not (self.under_way or self._finished or self.letters_under_way)

    def start(self, call: StartCall) -> None:
        member, settings = self._member, self._world.truth.settings
        self.under_way += 1
        if self.under_way > settings.concurrency + self._world.ahead:
            raise InvariantViolated("concurrency is a limit", f"{self.under_way} calls of {settings.concurrency}")
        most = settings.batch.records if settings.batch else 1
        rows = list(rows_of(call))
        if not 1 <= len(rows) <= most:
            raise InvariantViolated("a call has as many records as its batch", f"{len(rows)} of {most}")
        terms = member.engine.assignments.terms()
        for work in call.works:
            if terms.get(work.partition) != work.term:
                raise InvariantViolated("a call starts in its own term", f"{work!r}")
        self._world.truth.check_start(call, member.assignments)
        assignments = [member.assignments[work.partition] for work in call.works]
        records = [member.assignments[partition].records[offset] for partition, offset in rows]
        self._begun[id(call)] = _Begun(call, assignments, records)
        self._waiting.append(call)
        self._begin_waiting()

    def withdraw(self, partitions: Sequence[TopicPartition] | None = None) -> list[Action]:
        """Take back calls that no handler has begun, of these partitions or all."""
        if self._world.truth.is_at_most_once:
            return []
        going = [
            call
            for call in self._waiting
            if partitions is None or any(work.partition in partitions for work in call.works)
        ]
        for call in going:
            self._waiting.remove(call)
            del self._begun[id(call)]
        self.under_way -= len(going)
        return self._member.engine.withdrawn(going, self._member.now) if going else []

    def _begin_waiting(self) -> None:
        if self._processes is not None:
            self._processes.look()
            return
        while self._waiting and self._running < self._world.truth.settings.concurrency:
            self._begin(self._waiting.popleft())

    def _begin(self, call: StartCall) -> None:
        self._running += 1

        def ended(error: BaseException | None) -> None:
            self._running -= 1
            if error is None:
                self._returned(call)
            self._finish(Ending(call, error))
            self._begin_waiting()

        self._run(call, ended)

    def _start_processes(self) -> SimulatedProcesses:
        world, member = self._world, self._member

        def died() -> None:
            world.events.append((world.loop.now_ms, "process died", member.name))

        around = Surroundings(
            world.loop,
            world.rng,
            lambda: world.chances.deaths,
            self._run,
            self._returned,
            lambda ending: self._finish(ending) if member.is_alive else None,
            died,
        )
        return SimulatedProcesses(world.processes, self._waiting, around)

    def _run(self, call: StartCall, ended: Callable[[BaseException | None], None]) -> None:
        if not self._member.is_alive:
            return
        records = self._begun[id(call)].records
        self._world.truth.begin(records)

        def report(error: BaseException | None) -> None:
            if self._member.is_alive:
                ended(error)

        self._world.handlers.start(self._member, records, report)

    def _returned(self, call: StartCall) -> None:
        self._world.truth.over.update(self._begun[id(call)].records)

    def _finish(self, ending: Ending) -> None:
        call, error = ending
        begun = self._begun.pop(id(call))
        if error is not None:
            self._member.tell(lambda: self._failed(begun, error))
            return
        self._finished.append(begun)
        if len(self._finished) == 1:
            self._world.loop.call_later(int(self._world.rng.random() ** 3 * 30), self._report_finished)

    def _report_finished(self) -> None:
        if self._member.is_alive:
            self._member.tell(self._succeeded)

    def _succeeded(self) -> list[Action]:
        finished, self._finished = self._finished, []
        for call, assignments, _ in finished:
            self.under_way -= 1
            for work, assignment in zip(call.works, assignments, strict=True):
                present = self._present(assignment, work)
                if present is None:
                    self.expected.late += work.count
                elif work.state is not RecordState.OVER:
                    self.expected.done += work.count
                    for offset in work.offsets or (work.offset,):
                        present.end(offset)
        return self._member.engine.succeeded_all([begun.call for begun in finished], self._member.now)

    def _failed(self, begun: _Begun, error: BaseException) -> list[Action]:
        call, assignments, records = begun
        engine = self._member.engine
        self.under_way -= 1
        self.expected.failed += 1
        self._world.truth.failed.update(records)
        was_over = {work for work in call.works if work.state is RecordState.OVER}
        rows = [
            (work, assignment, list(work.offsets or (work.offset,)))
            for work, assignment in zip(call.works, assignments, strict=True)
        ]
        actions = engine.failed(call, error, self._member.now)
        tried = {(work.partition, work.term, offset) for work, _, offsets in rows for offset in offsets}
        retrying = [work for work in engine.outcomes.retries if (work.partition, work.term, work.offset) in tried]
        self.expected.retried += len(retrying)
        for work, assignment, offsets in rows:
            present = self._present(assignment, work)
            if present is None:
                self.expected.late += len(offsets)
                continue
            for offset in offsets:
                if work not in was_over and not self._is_held(work, offset):
                    self.expected.skipped += 1
                    self.give_up(offset, present)
        return actions

    def _is_held(self, work: InFlightRecord, offset: int) -> bool:
        """Whether the record still waits for something, or is in flight."""
        engine = self._member.engine
        if not self._world.truth.is_at_most_once:
            return engine.committer.frontiers()[work.partition].is_in_flight(offset)
        held = (*engine.outcomes.held(work.partition), *engine.lanes.held(work.partition))
        return any(offset in (each.offsets or (each.offset,)) for each in held if each.term == work.term)

    def _present(self, assignment: StayTruth, work: InFlightRecord) -> StayTruth | None:
        return assignment.live(self._member.assignments.get(work.partition), work.offset)

    def give_up(self, offset: int, assignment: StayTruth) -> None:
        """The record was skipped: nobody will run it, and that is in order."""
        self._world.truth.over.add(assignment.records[offset])
        self._world.truth.given_up.add(assignment.records[offset])
        assignment.end(offset)

    def write_dead_letter(self, action: WriteDeadLetter) -> None:
        work, rng = action.work, self._world.rng
        assignment = self._member.assignments[work.partition]
        record = assignment.records[work.offset]
        self.letters_under_way += 1

        def answered() -> None:
            is_refused = rng.random() < self._world.chances.refused_letters
            self._member.tell(lambda: written(RuntimeError("the dead-letter topic is full") if is_refused else None))

        def written(error: BaseException | None) -> list[Action]:
            self.letters_under_way -= 1
            if error is None:
                self._world.truth.over.add(record)
                self._world.truth.given_up.add(record)
                present = self._present(assignment, work)
                if present is not None:
                    self.expected.dead_lettered += 1
                    present.end(work.offset)
            return self._member.engine.dead_letter_written(work, error, self._member.now)

        self._world.loop.call_later(1 + int(rng.random() ** 2 * 800), answered)
