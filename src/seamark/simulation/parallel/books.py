"""The books of one simulated member: what really became of its records, calls, commits and dead letters.

They are kept beside the engine and the shell, which know nothing of them. What a handler did, what the coordinator
answered and whether a dead letter was stored are facts of the world at once; the engine must hear of each of them, as
it was and once, and count as the books do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from seamark.parallel.core.engine import Engine
from seamark.parallel.core.lanes import lane_of
from seamark.parallel.core.ports import Committed, Polled, ToCommit
from seamark.parallel.core.work import (
    Action,
    CommitOffsets,
    Counters,
    InFlightRecord,
    RecordState,
    StartCall,
    Stopped,
    WriteDeadLetter,
)
from seamark.simulation.parallel.group import Results
from seamark.simulation.parallel.log import SimulatedRecord
from seamark.simulation.parallel.truth import StayTruth, rows_of
from seamark.simulation.parallel.world import World
from seamark.simulation.world.violations import InvariantViolated
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets.done_ahead import decode

# What the engine counts, and the books do not know.
_NOT_IN_THE_BOOKS = ("foreign_metadata", "lost")
_COUNTED = [name for name in Counters.__slots__ if name not in _NOT_IN_THE_BOOKS]


class Call:
    """A call as it was when it was decided: the assignment of each of its records, and all its records."""

    __slots__ = ("call", "has_begun", "has_returned", "is_withdrawn", "number", "records", "reported_ms", "stays")

    def __init__(self, number: int, call: StartCall, stays: list[StayTruth], records: list[SimulatedRecord]) -> None:
        self.number = number
        self.call = call
        self.stays = stays
        self.records = records
        # By a handler.
        self.has_begun = False
        self.has_returned = False
        # When it was put into the mailbox.
        self.reported_ms: int | None = None
        # By the shell, which has to tell the engine or start it again.
        self.is_withdrawn = False


class Decided(NamedTuple):
    """A commit, with the assignments that it was decided in."""

    action: CommitOffsets
    stays: Mapping[TopicPartition, StayTruth]


class Letter:
    __slots__ = ("is_answered", "is_stored", "record", "stay", "work")

    def __init__(self, work: InFlightRecord, stay: StayTruth, record: SimulatedRecord) -> None:
        self.work = work
        self.stay = stay
        self.record = record
        self.is_answered = False
        self.is_stored = False


class Books:
    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.settings = world.truth.settings
        self.stays: dict[TopicPartition, StayTruth] = {}
        self.expected = Counters()
        # What was in the mailbox at this moment the owner has had time to read.
        self.owner_free_ms = 0
        # What the port handed out as columns and the engine has not heard of yet.
        self.columns: deque[Polled] = deque()
        # Partitions that are to go, and since when.
        self.going: dict[TopicPartition, float] = {}
        # By the identity of the call, which has no hash; and by that of its works, which pools know it by.
        self._calls: dict[int, Call] = {}
        self._by_works: dict[int, Call] = {}
        self._call_number = 0
        self._decided: deque[Decided] = deque()
        self._commits_under_way = 0
        # By ticket, as they were handed to the shell.
        self._answers: dict[int, Results] = {}
        self._letters_to_write: deque[Letter] = deque()
        # By the identity of the work.
        self._letters: dict[int, Letter] = {}
        self._lane_of = lane_of(self.settings.order)

    @property
    def is_idle(self) -> bool:
        """Whether the engine has heard of everything."""
        return not (self._calls or self._decided or self._commits_under_way or self._letters_to_write or self._letters)

    @property
    def calls_under_way(self) -> int:
        return len(self._calls)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return {partition: stay.position for partition, stay in self.stays.items()}

    @property
    def is_at_most_once(self) -> bool:
        return self.world.truth.is_at_most_once

    # The group.

    def assigned(self, committed: Mapping[TopicPartition, Committed]) -> None:
        for partition, (offset, metadata, epoch) in committed.items():
            self.stays[partition] = StayTruth(offset, decode(metadata, offset) if offset >= 0 else None, epoch)
            self.going.pop(partition, None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.stays.pop(partition, None)
            self.going.pop(partition, None)

    def check_heard(self, partitions: Sequence[TopicPartition], engine: Engine) -> None:
        """These are about to be let go."""
        for call in self._calls.values():
            is_unread = call.reported_ms is not None and call.reported_ms <= self.owner_free_ms
            if is_unread and any(
                work.partition in partitions and engine.assignments.is_live(work) for work in call.call.works
            ):
                raise InvariantViolated("what has ended counts before its partition goes", f"{call.call}")

    def check_gone(self, partitions: Sequence[TopicPartition], engine: Engine) -> None:
        """The shell has been told that these go, and is through with it."""
        if engine.is_over:
            return
        kept = [partition for partition in partitions if partition in engine.assignments.terms()]
        if kept:
            raise InvariantViolated("what goes is let go", f"{self.name} still has {kept}")
        if self.is_at_most_once or self.world.processes:
            # What a process was sent cannot be taken back.
            return
        for call in self._calls.values():
            if not call.has_begun and any(work.partition in partitions for work in call.call.works):
                raise InvariantViolated("calls that no handler has begun are withdrawn", f"{self.name}: {call.call}")

    # Records.

    def polled(self, polled: Polled, *, is_stopping: bool) -> None:
        partition, records, position, epoch = polled
        stay = self.stays.get(partition)
        if stay is None or is_stopping or partition in self.going:
            self.expected.unowned += len(records)
            return
        if records:
            first = records[0].offset
            if first < stay.position:
                stay = self.stays[partition] = stay.rewound(first)
            if stay.first < 0:
                stay.first = first
            stay.see_epochs((record.offset, record.leader_epoch) for record in records)
            for record in records:
                if record.offset not in stay.known:
                    stay.unfinished[record.offset] = self._lane_of(record.key)
                    stay.records[record.offset] = record  # type: ignore[assignment]
                else:
                    self.expected.spared += 1
            self.expected.polled += len(records)
            stay.position = max(records[-1].offset + 1, position)
        elif position > stay.position:
            stay.see_epochs([(position - 1, epoch)])
            stay.position = position
        stay.poll_ends.add(stay.position)

    # Calls.

    def started(self, call: StartCall, terms: Mapping[TopicPartition, int]) -> None:
        """The shell gives the call to the pool."""
        known = self._calls.get(id(call))
        if known is not None and known.is_withdrawn:
            # It is not to go after all.
            known.is_withdrawn = False
            return
        rows = list(rows_of(call))
        most = self.settings.batch.records if self.settings.batch else 1
        if not 1 <= len(rows) <= most:
            raise InvariantViolated("a call has as many records as its batch", f"{len(rows)} of {most}")
        for work in call.works:
            if terms.get(work.partition) != work.term:
                raise InvariantViolated("a call starts in its own term", f"{work!r}")
        self.world.truth.check_start(call, self.stays)
        stays = [self.stays[work.partition] for work in call.works]
        records = [self.stays[partition].records[offset] for partition, offset in rows]
        self._call_number += 1
        self._calls[id(call)] = self._by_works[id(call.works)] = Call(self._call_number, call, stays, records)
        if len(self._calls) > self.settings.concurrency + self.world.ahead:
            raise InvariantViolated("concurrency is a limit", f"{len(self._calls)} calls")

    def taken_back(self, calls: Iterable[StartCall]) -> None:
        """The pool gave these back to the shell."""
        for call in calls:
            self._calls[id(call)].is_withdrawn = True

    def withdrawn(self, calls: Iterable[StartCall]) -> None:
        """The shell tells the engine that these were never begun."""
        for call in calls:
            known = self._pop(call)
            if known.has_begun or not known.is_withdrawn:
                raise InvariantViolated("only what no handler has begun is withdrawn", f"{call}")

    def number_of(self, works: Sequence[InFlightRecord]) -> int:
        return self._by_works[id(works)].number

    def numbered(self, number: int) -> Call:
        return next(call for call in self._calls.values() if call.number == number)

    def known(self, call: StartCall) -> Call:
        known = self._calls.get(id(call))
        if known is None:
            raise InvariantViolated("a handler is given what the engine wants run", f"{call}")
        return known

    def begin(self, call: Call) -> None:
        """A handler is given the records of the call."""
        if call.is_withdrawn or id(call.call) not in self._calls:
            raise InvariantViolated("a handler is given what the engine wants run", f"{call.call}")
        if call.has_begun:
            raise InvariantViolated("only what no handler has seen runs elsewhere", f"{call.call} was begun before")
        call.has_begun = True
        self.world.truth.begin(call.records)

    def returned(self, call: Call) -> None:
        """Its handler has returned, which is a fact whether anybody hears of it or not."""
        call.has_returned = True
        self.world.truth.over.update(call.records)

    def succeeded(self, calls: Iterable[StartCall]) -> None:
        """The engine is told that these ended well."""
        for call in calls:
            known = self._pop(call)
            if not known.has_returned:
                raise InvariantViolated("what failed is never taken for done", f"{call} was reported done, it is not")
            for work, stay in zip(call.works, known.stays, strict=True):
                present = self._present(stay, work)
                if present is None:
                    self.expected.late += work.count
                elif work.state is not RecordState.OVER:
                    self.expected.done += work.count
                    for offset in work.offsets or (work.offset,):
                        present.end(offset)

    def failed(self, call: StartCall, tell: Callable[[], list[Action]], engine: Engine) -> list[Action]:
        """The engine is told that this failed; what it decides about the records is looked up behind it."""
        known = self._pop(call)
        self.expected.failed += 1
        self.world.truth.failed.update(known.records)
        was_over = {work for work in call.works if work.state is RecordState.OVER}
        rows = [
            (work, stay, list(work.offsets or (work.offset,)))
            for work, stay in zip(call.works, known.stays, strict=True)
        ]
        actions = tell()
        tried = {(work.partition, work.term, offset) for work, _, offsets in rows for offset in offsets}
        retrying = [work for work in engine.outcomes.retries if (work.partition, work.term, work.offset) in tried]
        self.expected.retried += len(retrying)
        for work, stay, offsets in rows:
            present = self._present(stay, work)
            if present is None:
                self.expected.late += len(offsets)
                continue
            for offset in offsets:
                if work not in was_over and not self._is_held(work, offset, engine):
                    self.expected.skipped += 1
                    self.give_up(offset, present)
        return actions

    def _pop(self, call: StartCall) -> Call:
        known = self._calls.pop(id(call), None)
        if known is None:
            raise InvariantViolated("each call is reported once", f"{call} was reported again")
        del self._by_works[id(call.works)]
        return known

    def _is_held(self, work: InFlightRecord, offset: int, engine: Engine) -> bool:
        """Whether the record still waits for something, or is in flight."""
        if not self.is_at_most_once:
            return engine.committer.frontiers()[work.partition].is_in_flight(offset)
        held = (*engine.outcomes.held(work.partition), *engine.lanes.held(work.partition))
        return any(offset in (each.offsets or (each.offset,)) for each in held if each.term == work.term)

    def _present(self, stay: StayTruth, work: InFlightRecord) -> StayTruth | None:
        return stay.live(self.stays.get(work.partition), work.offset)

    def give_up(self, offset: int, stay: StayTruth) -> None:
        """The record was skipped: nobody will run it, and that is in order."""
        self.world.truth.over.add(stay.records[offset])
        self.world.truth.given_up.add(stay.records[offset])
        stay.end(offset)

    # What the engine wants.

    def decided(self, actions: Iterable[Action], engine: Engine) -> None:
        """Hold what was decided just now against the truth."""
        for action in actions:
            if isinstance(action, CommitOffsets):
                for partition, to_commit in action.offsets.items():
                    self.world.truth.check_decision(
                        partition, to_commit, self.stays[partition], engine.committer.metadata_length
                    )
                stays = {partition: self.stays[partition] for partition in action.offsets}
                self._decided.append(Decided(action, stays))
            elif isinstance(action, WriteDeadLetter):
                work = action.work
                stay = self.stays[work.partition]
                self._letters_to_write.append(Letter(work, stay, stay.records[work.offset]))
            elif isinstance(action, Stopped) and (action.reason or "").startswith("the committer cannot continue"):
                raise InvariantViolated("the committer is given valid input only", action.reason or "")

    # Commits.

    def sent(self, offsets: Mapping[TopicPartition, ToCommit], *, is_waited_for: bool) -> Decided:
        """The shell commits; what was decided is committed, in the order in which it was."""
        if not self._decided or self._decided[0].action.offsets is not offsets:
            raise InvariantViolated("what was decided is committed", f"{self.name} commits {offsets}")
        decided = self._decided.popleft()
        if decided.action.must_wait and not is_waited_for:
            raise InvariantViolated("a commit that must be waited for is waited for", f"{self.name}: {offsets}")
        self._commits_under_way += 1
        return decided

    def answered(self, ticket: int, results: Results) -> None:
        """The shell is about to hear the answer."""
        self._answers[ticket] = results

    def commit_finished(self, ticket: int, results: Mapping[TopicPartition, BaseException | None]) -> None:
        if self._answers.pop(ticket, None) is not results:
            raise InvariantViolated("a commit's response is reported once, as it came", f"{self.name}: commit {ticket}")
        self._commits_under_way -= 1

    # Dead letters.

    def next_letter(self) -> Letter:
        """The shell writes one: the next that was decided."""
        if not self._letters_to_write:
            raise InvariantViolated("dead letters are written once", self.name)
        letter = self._letters_to_write.popleft()
        self._letters[id(letter.work)] = letter
        return letter

    def letter_answered(self, letter: Letter, *, is_stored: bool) -> None:
        letter.is_answered, letter.is_stored = True, is_stored
        if is_stored:
            self.world.truth.over.add(letter.record)
            self.world.truth.given_up.add(letter.record)

    def letter_written(self, work: InFlightRecord, error: BaseException | None) -> None:
        """The engine is told what became of the letter."""
        letter = self._letters.pop(id(work), None)
        if letter is None or not letter.is_answered or letter.is_stored is not (error is None):
            raise InvariantViolated("a dead letter counts as what became of it", f"{work}: {error!r}")
        if error is None:
            present = self._present(letter.stay, work)
            if present is not None:
                self.expected.dead_lettered += 1
                present.end(work.offset)

    # Counts.

    def check_counts(self, engine: Engine) -> None:
        counters, expected = engine.counters, self.expected
        for name in _COUNTED:
            if getattr(counters, name) != getattr(expected, name):
                raise InvariantViolated("what happens is counted", f"{self.name}: {counters}, but it was {expected}")
        # One poll may come on top: of every partition that held nothing and so was not paused.
        budget, partitions = engine.budget, max(1, len(self.world.logs))
        is_columnar = self.settings.wants_columns
        if budget.held_records > budget.max_records + partitions * (self.world.poll_records if is_columnar else 1):
            raise InvariantViolated("the budget holds", f"{budget.held_records} of {budget.max_records} records")
        copies = len(engine.outcomes.dead_lettering)
        excess = self.world.largest_record_bytes * (self.world.poll_records * partitions + copies)
        if budget.held_bytes > budget.max_bytes + excess:
            raise InvariantViolated("the budget holds", f"{budget.held_bytes} of {budget.max_bytes} bytes")
