"""A simulated member: the engine in a shell like the real one, with one owner, a port and handlers, in virtual time.

The shell does one thing at a time. While a commit that must be waited for is under way, or while the process is frozen,
what handlers report waits in its inbox. Inside a revocation nothing is polled, as the real one is called from poll.
After every event the engine's counts are compared with what really happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import NamedTuple

from seamark.errors import UsageError
from seamark.parallel.core.engine import Engine
from seamark.parallel.core.lanes import lane_of
from seamark.parallel.core.ports import NO_EPOCH, Committed, Polled, PolledColumns
from seamark.parallel.core.work import (
    Action,
    CommitOffsets,
    PausePartitions,
    ResumePartitions,
    StartCall,
    Stopped,
    WriteDeadLetter,
)
from seamark.simulation.parallel.calls import Calls, Handlers
from seamark.simulation.parallel.commits import CommitPath
from seamark.simulation.parallel.group import SimulatedGroup
from seamark.simulation.parallel.log import PartitionLog
from seamark.simulation.parallel.truth import StayTruth, Truth
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.transcript import Event
from seamark.simulation.world.violations import InvariantViolated
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets.done_ahead import decode

# A member that rests takes a turn every minute or so, and the next one at once when something happens.
_MOST_DOUBLINGS = 10


class _Draining(NamedTuple):
    partitions: Sequence[TopicPartition]
    deadline: float
    then: Callable[[], None]


@dataclass(slots=True)
class Chances:
    """What may go wrong, as chances from 0 to 1; they change while a lifetime runs."""

    refused_letters: float = 0.0
    failures: float = 0.0
    hangs: float = 0.0
    # Of a handler process, in the course of a call.
    deaths: float = 0.0


class World(NamedTuple):
    """What all members share."""

    loop: EventLoop
    rng: Random
    events: list[Event]
    truth: Truth
    logs: Mapping[TopicPartition, PartitionLog]
    group: SimulatedGroup
    handlers: Handlers
    chances: Chances
    # The longest poll of one partition.
    poll_records: int
    largest_record_bytes: int
    # Calls that members take beyond what their handlers can run, and keep until one is free.
    ahead: int
    on_stopped: Callable[[SimulatedMember, str | None], None]
    # In how many processes of its own a member runs handlers; with 0 they run in the member itself.
    processes: int = 0
    # After so many turns in which nothing happened, a member rests longer and longer between them; None for never.
    turns_before_rest: int | None = None


class SimulatedMember:
    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        settings = world.truth.settings
        self.engine = Engine(settings, self.now, chance=world.rng.random, ahead=world.ahead)
        self.is_alive = True
        # Given by the group with each join.
        self.membership = 0
        # The last one that it has heard is over: what the group said to it before then counts no more.
        self._lost_membership = 0
        self.is_frozen = False
        self.assignments: dict[TopicPartition, StayTruth] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.calls = Calls(self)
        self._commits = CommitPath(self)
        self._lane_of = lane_of(settings.order)
        self._inbox: deque[Callable[[], None]] = deque()
        self._to_do: deque[Action] = deque()
        self._is_working = False
        # A turn that was called for counts no more when another was called for after it.
        self._next_turn = 0
        self._is_in_turn = False
        self._is_resting = False
        # Since anything happened but turns of its own.
        self._quiet_turns = 0
        self._draining: deque[_Draining] = deque()
        world.loop.call_later(1, self._turn, self._next_turn)

    @property
    def now(self) -> float:
        return self.world.loop.now_ms / 1000

    @property
    def is_idle(self) -> bool:
        is_waiting = self._to_do or self._inbox or self._draining or self._commits.under_way
        return self.calls.is_idle and not is_waiting

    # What the world does to it.

    def crash(self) -> None:
        self.is_alive = False
        self.world.events.append((self.world.loop.now_ms, "crash", self.name))
        self.world.handlers.member_gone(self)

    def freeze(self, duration_ms: int) -> None:
        self.is_frozen = True
        self.world.events.append((self.world.loop.now_ms, "freeze", self.name, duration_ms))
        self.world.loop.call_later(duration_ms, self._thaw)

    def _thaw(self) -> None:
        self.is_frozen = False
        self._work_off()

    def stop(self) -> None:
        self.tell(lambda: self.engine.stop(self.now))
        self.tell(self.calls.withdraw)

    def assign(self, committed: Mapping[TopicPartition, Committed]) -> None:
        membership = self.membership

        def assigned() -> list[Action]:
            if membership <= self._lost_membership:
                return []
            # The group may have given them to others before this member heard of it.
            for partition, (offset, metadata, epoch) in committed.items():
                self.assignments[partition] = StayTruth(
                    offset, decode(metadata, offset) if offset >= 0 else None, epoch
                )
                # Clients ask the leader whether what was committed is still there.
                self.positions[partition] = max(self.world.logs[partition].still_there(offset, epoch), 0)
                self.paused.discard(partition)
            return self.engine.assigned(committed, self.now)

        self.tell(assigned)

    def revoke(self, partitions: Sequence[TopicPartition], then: Callable[[], None]) -> None:
        membership = self.membership

        def revoked() -> list[Action]:
            if membership <= self._lost_membership:
                return []
            owned = [partition for partition in partitions if partition in self.assignments]
            self._draining.append(_Draining(owned, self.now + self.world.truth.settings.drain, then))
            return self.engine.revoked(owned, self.now)

        self.tell(revoked)
        self.tell(lambda: self.calls.withdraw(partitions))

    def hear_of_loss_later(self) -> None:
        """It was expelled: its next heartbeat tells it, and it joins again."""
        self.world.loop.call_later(50 + int(self.world.rng.random() * 4_000), self._hear_of_loss)

    def _hear_of_loss(self) -> None:
        def lost() -> list[Action]:
            if self in self.world.group.members:
                # It has joined again since.
                return []
            gone = list(self.assignments)
            self._forget(gone)
            self._draining.clear()
            self._lost_membership = self.membership
            self.world.events.append((self.world.loop.now_ms, "lost", self.name))
            if not self.engine.is_over and self not in self.world.group.members:
                self.world.loop.call_later(5, self._join)
            return self.engine.lost(gone, self.now)

        if self.is_alive:
            self.tell(lost)
            self.tell(self.calls.withdraw)

    def _join(self) -> None:
        if self.is_alive and not self.engine.is_over and self not in self.world.group.members:
            self.world.group.join(self)

    def seek(self, partition: TopicPartition, position: int) -> None:
        self.positions[partition] = position

    def give_up(self, partition: TopicPartition, offset: int, *, to_dead_letters: bool) -> None:
        """An operator decides about a record that holds its partition back."""

        def decided() -> list[Action]:
            assignment = self.assignments.get(partition)
            frontier = self.engine.committer.frontiers().get(partition)
            work = frontier.item(offset) if frontier is not None else None
            for parked in list(self.engine.outcomes.parked):
                if (parked.partition, parked.offset) == (partition, offset):
                    work = work or parked
            try:
                if to_dead_letters:
                    return self.engine.dead_letter(partition, offset, self.now)
                actions = self.engine.skip(partition, offset, self.now)
            except UsageError:
                return []
            if work is not None and assignment is not None:
                self.calls.expected.skipped += 1
                self.calls.give_up(offset, assignment)
            return actions

        self.tell(decided)

    # Turns of the owner's loop.

    def _turn(self, number: int) -> None:
        if not self.is_alive or number != self._next_turn:
            return
        self._quiet_turns += 1
        self._is_in_turn, self._is_resting = True, False
        if not self.is_frozen and self._commits.waits_for is None:
            if self._draining:
                self._drain()
            elif not self.engine.is_over:
                self._poll()
            self.tell(lambda: self.engine.tick(self.now))
        self._is_in_turn = False
        pause_ms = 5 + int(self.world.rng.random() ** 2 * 120)
        before_rest = self.world.turns_before_rest
        self._is_resting = before_rest is not None and self._quiet_turns > before_rest
        if before_rest is not None and self._is_resting:
            pause_ms <<= min(self._quiet_turns - before_rest, _MOST_DOUBLINGS)
        self.world.loop.call_later(pause_ms, self._turn, self._next_turn)

    def _something_happens(self) -> None:
        self._quiet_turns = 0
        if self._is_resting:
            self._is_resting = False
            self._next_turn += 1
            self.world.loop.call_later(5, self._turn, self._next_turn)

    def _drain(self) -> None:
        draining = self._draining[0]
        if not self.engine.is_drained(draining.partitions) and self.now < draining.deadline:
            return
        self._draining.popleft()

        def released() -> list[Action]:
            actions = self.engine.release(draining.partitions, self.now)
            self._commits.check(actions)
            self._forget(draining.partitions)
            return actions

        self.tell(released, is_checked=True)
        # Behind whatever the release asked for: its commit counts until then.
        self.tell(lambda: draining.then() or [])

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self.assignments.pop(partition, None)
            self.positions.pop(partition, None)
            self.paused.discard(partition)

    def _poll(self) -> None:
        room = self.engine.budget.room_records()
        polls = []
        for partition, position in self.positions.items():
            log = self.world.logs[partition]
            if partition in self.paused or room < 1:
                continue
            if position > log.log_end:
                # The log was cut below what was read: the client goes back to its end.
                position = log.log_end
            limit = min(room, 1 + int(self.world.rng.random() * self.world.poll_records))
            records, following = log.read(position, limit)
            self.positions[partition] = following
            room -= len(records)
            # Not every client says where it stands behind a gap; the next poll that finds nothing says it.
            says_position = not records or self.world.rng.random() < 0.5
            epoch = NO_EPOCH if records else log.epoch_before(following)
            polled = Polled(TopicPartition(*partition), records, following if says_position else -1, epoch)
            polls += _by_epoch(polled) if self._is_columnar else [polled]
        for polled in polls:
            self.tell(lambda polled=polled: self._take(polled))  # type: ignore[misc]

    def _take(self, polled: Polled) -> list[Action]:
        partition, records, position, epoch = polled
        assignment = self.assignments.get(partition)
        if (
            assignment is None
            or self.engine.is_stopping
            or any(partition in draining.partitions for draining in self._draining)
        ):
            self.calls.expected.unowned += len(records)
            return self._hand_over(polled)
        if records:
            first = records[0].offset
            if first < assignment.position:
                assignment = self.assignments[partition] = assignment.rewound(first)
            if assignment.first < 0:
                assignment.first = first
            assignment.see_epochs((record.offset, record.leader_epoch) for record in records)
            for record in records:
                if record.offset not in assignment.known:
                    assignment.unfinished[record.offset] = self._lane_of(record.key)
                    assignment.records[record.offset] = record  # type: ignore[assignment]
                else:
                    self.calls.expected.spared += 1
            self.calls.expected.polled += len(records)
            assignment.position = max(records[-1].offset + 1, position)
        elif position > assignment.position:
            assignment.see_epochs([(position - 1, epoch)])
            assignment.position = position
        assignment.poll_ends.add(assignment.position)
        return self._hand_over(polled)

    @property
    def _is_columnar(self) -> bool:
        batch = self.world.truth.settings.batch
        return batch is not None and batch.arrow

    def _hand_over(self, polled: Polled) -> list[Action]:
        if not self._is_columnar:
            return self.engine.polled(polled, self.now)
        # Loaded here: lifetimes without columns do without it.
        from seamark.parallel.core.columns import batch_of_records

        rows = batch_of_records(polled.records) if polled.records else None
        offsets = [record.offset for record in polled.records]
        epoch = polled.records[-1].leader_epoch if polled.records else polled.leader_epoch
        columns = PolledColumns(polled.partition, rows, offsets, polled.position, epoch)
        return self.engine.polled_columns(columns, self.now)

    # Events into the engine, actions out of it.

    def tell(self, event: Callable[[], list[Action]], *, is_checked: bool = False, is_next: bool = False) -> None:
        """Have the owner handle an event; it waits in the inbox while the owner is held up.

        ``is_checked``: the event itself holds its commits against the truth. ``is_next``: it comes before all others.
        """

        def handle() -> None:
            actions = event()
            if actions or not self._is_in_turn:
                self._something_happens()
            if not is_checked:
                self._commits.check(actions)
            self._to_do.extend(actions)
            self._check_counts()

        if is_next:
            handle()
        else:
            self._inbox.append(handle)
        self._work_off()

    def _work_off(self) -> None:
        if self._is_working:
            return
        self._is_working = True
        while self.is_alive and not self.is_frozen and self._commits.waits_for is None:
            if self._to_do:
                self._perform(self._to_do.popleft())
            elif self._inbox:
                self._inbox.popleft()()
            else:
                break
        self._is_working = False

    def _perform(self, action: Action) -> None:
        match action:
            case StartCall():
                self.calls.start(action)
            case PausePartitions(partitions):
                self.paused |= {partition for partition in partitions if partition in self.positions}
            case ResumePartitions(partitions):
                self.paused -= set(partitions)
            case CommitOffsets():
                self._commits.send(action)
            case WriteDeadLetter():
                self.calls.write_dead_letter(action)
            case Stopped(reason):
                self._stopped(reason)

    def _stopped(self, reason: str | None) -> None:
        if reason is not None and reason.startswith("the committer cannot go on"):
            raise InvariantViolated("the committer is never told what cannot be", reason)
        self.world.events.append((self.world.loop.now_ms, "stopped", self.name, reason or "as asked"))
        owned = list(self.assignments)

        def closed() -> list[Action]:
            actions = [*self.engine.revoked(owned, self.now), *self.engine.release(owned, self.now)]
            self._commits.check(actions)
            self._forget(owned)
            return actions

        def left() -> list[Action]:
            self.is_alive = False
            self.world.handlers.member_gone(self)
            self.world.group.leave(self)
            self.world.on_stopped(self, reason)
            return []

        self.tell(closed, is_checked=True)
        self.tell(left)

    # Checks.

    def _check_counts(self) -> None:
        counted, expected = self.engine.counters.as_dict(), self.calls.expected.as_dict()
        for name in ("foreign_metadata", "lost"):
            del counted[name], expected[name]
        if counted != expected:
            raise InvariantViolated("what happens is counted", f"{self.name}: {counted}, but it was {expected}")
        # One poll may come on top: of every partition that held nothing and so was not paused.
        budget, partitions = self.engine.budget, max(1, len(self.world.logs))
        if budget.held_records > budget.max_records + partitions:
            raise InvariantViolated("the budget holds", f"{budget.held_records} of {budget.max_records} records")
        copies = len(self.engine.outcomes.dead_lettering)
        excess = self.world.largest_record_bytes * (self.world.poll_records * partitions + copies)
        if budget.held_bytes > budget.max_bytes + excess:
            raise InvariantViolated("the budget holds", f"{budget.held_bytes} of {budget.max_bytes} bytes")


def _by_epoch(polled: Polled) -> list[Polled]:
    """As columns come: those of one poll are of one leader epoch."""
    runs = [list(run) for _, run in groupby(polled.records, lambda record: record.leader_epoch)]
    if len(runs) < 2:
        return [polled]
    before = [Polled(polled.partition, run, run[-1].offset + 1) for run in runs[:-1]]
    return [*before, polled._replace(records=runs[-1])]
