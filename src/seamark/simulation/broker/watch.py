"""Between the shell of groups, the coordinator and the logs: whatever passes there is told to the invariants.

``WatchedCoordinator``, ``WatchedPartition`` and ``WatchedStorage`` are the real ones. Of the shell it is checked here

- that the coordinator is never told an earlier time than before
- that a timer comes when it is due, not before, and not after it was cancelled
- that what was decided is written in the loop's next turn, whole and in its order, and nothing else
- that an append's outcome is told once and as it is
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from seamark.broker.log.partition import Partition, TopicOfPartition
from seamark.broker.log.storage import LogStorage
from seamark.coordinator import Arm, Coordinator, Effects, Settings
from seamark.coordinator.commands import Command
from seamark.coordinator.effects import TimerKey
from seamark.coordinator.offsets.commit_patterns import CommitAgain
from seamark.coordinator.shard_state import SWEEP_TIMER
from seamark.simulation.broker.asked import Asked
from seamark.simulation.broker.invariants import Invariants
from seamark.simulation.world.books import Books, Decided
from seamark.simulation.world.disk import SimulatedDisk
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.transcript import Event
from seamark.simulation.world.violations import InvariantViolated
from seamark.storage import Log, StorageFailed
from seamark.storage.log import AppendResult
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records.record_batch import Buffer, read_header

# What rounding may add to a deadline.
_LATEST_MS = 5
# For how long the busiest loop keeps a call that is to come in its next turn.
LONGEST_TURN_MS = 1400

OnAcknowledged = Callable[[StorageFailed | None], None]


class Watch:
    """What is known of one process.

    ``deliver`` hands an acknowledgement on, at once or later; ``lose_files`` is called when something was written.
    """

    def __init__(
        self,
        loop: EventLoop,
        events: list[Event],
        disk: SimulatedDisk,
        invariants: Invariants,
        deliver: Callable[[int, Callable[[], None]], None],
        lose_files: Callable[[], None],
    ) -> None:
        self._loop = loop
        self.events = events
        self.disk = disk
        self.invariants = invariants
        self._deliver = deliver
        self._lose_files = lose_files
        self.timers: dict[TimerKey, int] = {}
        # By the shell's own clock; the last that the coordinator was told.
        self.now_ms = -1
        # Timers that were cancelled since the time last went on: firing them is not too late yet.
        self._cancelled: set[TimerKey] = set()
        self._superseding: Books | None = None
        self._logs: dict[int, Log] = {}
        # Logs that were opened again while the coordinator has their groups, until it gives them up.
        self._reopened: dict[int, Log] = {}
        # Partitions that the coordinator gave up in the call under way.
        self.given_up: list[tuple[Coordinator, int]] = []

    def note(self, kind: str, *facts: Any) -> None:
        self.events.append((self._loop.now_ms, kind, *facts))

    # -- time

    def tell_time(self, now_ms: int) -> None:
        """The coordinator is called, with this time."""
        if self._superseding is not None:
            self._superseding.superseded.clear()
            self._superseding = None
        if now_ms != self.now_ms:
            if now_ms < self.now_ms:
                raise InvariantViolated("time never goes back", f"{now_ms} comes after {self.now_ms}")
            self.now_ms = now_ms
            self._cancelled.clear()

    def check_nothing_waits(self) -> None:
        """Whatever should have happened by now has happened."""
        for books in self.invariants.books:
            if books.decided and books.decided[0].moment_ms + LONGEST_TURN_MS < self._loop.now_ms:
                raise InvariantViolated(
                    "what was decided is written in the loop's next turn", f"{books.decided[0]} still waits"
                )
        for key, deadline_ms in self.timers.items():
            if deadline_ms + _LATEST_MS < self.now_ms and key[1] != SWEEP_TIMER:
                raise InvariantViolated("a timer comes when it is due", f"{key} was due at {deadline_ms}")

    def check_fired(self, key: TimerKey, now_ms: int) -> None:
        deadline_ms = self.timers.pop(key, None)
        if key[1] == SWEEP_TIMER:
            return
        if deadline_ms is None:
            if key not in self._cancelled:
                raise InvariantViolated("a timer comes when it is due", f"{key} comes, and nobody has set it")
        elif now_ms < deadline_ms:
            raise InvariantViolated("a timer comes when it is due", f"{key} comes at {now_ms}, before {deadline_ms}")

    def move_deadlines(self, by_ms: int) -> None:
        self.timers = {key: deadline_ms + by_ms for key, deadline_ms in self.timers.items()}
        self.invariants.note_clock_step(by_ms)

    # -- decisions

    def decided(self, effects: Effects, asked: Asked | None = None) -> Effects:
        """Take note of what the coordinator wants done."""
        if effects.log_lines:
            self.invariants.note_log_lines(effects.log_lines)
        for append in effects.appends:
            self.invariants.books[append.partition].note_decided(
                append.ticket, append.records, asked, self._loop.now_ms
            )
            self.invariants.note_intention(append.records)
        for timer in effects.timers:
            if type(timer) is Arm:
                self.timers[timer.key] = timer.deadline_ms
            elif self.timers.pop(timer.key, None) is not None:
                self._cancelled.add(timer.key)
        return effects

    def begin_coordinator(self) -> None:
        self.timers.clear()
        for books in self.invariants.books:
            books.begin_coordinator()

    def supersede(self, number: int) -> None:
        self._superseding = self.invariants.books[number]

    def gave_up(self, coordinator: Coordinator, number: int) -> None:
        """The groups of a partition are gone: what its log holds counts from now on."""
        books = self.invariants.books[number]
        books.give_up()
        reopened = self._reopened.pop(number, None)
        if reopened is None:
            books.note_unloaded()
        else:
            self._settle_opening(number, reopened)
        self.given_up.append((coordinator, number))

    def check_given_up(self) -> None:
        """At the end of a call: whoever waited for groups that were given up in it has an answer."""
        given_up, self.given_up = self.given_up, []
        for coordinator, number in given_up:
            self.invariants.check_unloaded(number, coordinator)

    # -- the log

    def opened(self, number: int, log: Log, former: Log | None) -> None:
        books = self.invariants.books[number]
        self._logs[number] = log
        self.note("open", f"partition {number}", log.log_start, log.log_end)
        if former is not None:
            books.expect(former.durable_end, is_power_loss=False, is_synced_before_replies=True)
        if former is not None and books.is_active:
            # Until they are given up, the groups are what they were.
            self._reopened[number] = log
        else:
            self._settle_opening(number, log)

    def _settle_opening(self, number: int, log: Log) -> None:
        self.invariants.note_opened(number, log.log_end)
        self.invariants.check_log(number, log, self.disk, "after an opening")

    def check_served(self, number: int) -> None:
        """Groups were loaded: what they show from now on is as durable as what is stored for them later."""
        log = self._logs.get(number)
        if log is None:
            return
        if log.acknowledged_end < log.log_end:
            raise InvariantViolated(
                "a reply never precedes its stored records",
                f"partition {number} is loaded to {log.log_end}, its log is stored only to {log.acknowledged_end}",
            )
        self.invariants.check_log(number, log, self.disk, "after a load")

    def before_write(self, partition: Partition, count: int) -> list[Decided]:
        """So many records are about to be written. What they say is compared when the log is read."""
        if partition.index in self._reopened:
            raise InvariantViolated("a log that was opened again is loaded first", f"{partition} is written to")
        books = self.invariants.books[partition.index]
        taken = books.take_decided(count)
        if self.disk.is_faulty and books.uncertain is None and partition.log.writes_stopped is None:
            # A crash or an error in the middle may leave all of it.
            books.uncertain = [record for each in taken for record in each.records]
        return taken

    def refused(self, partition: Partition, error: StorageFailed) -> None:
        self.note("disk", str(error))
        if partition.log.writes_stopped is None:
            self.invariants.books[partition.index].uncertain = None

    def written(self, partition: Partition, taken: list[Decided], base: int) -> None:
        books = self.invariants.books[partition.index]
        books.uncertain = None
        books.note_written(taken, base)
        self._lose_files()

    def awaiting(self, partition: Partition, end_offset: int, callback: OnAcknowledged) -> OnAcknowledged:
        """Somebody wants to know when the log is stored up to there."""
        number, log = partition.index, partition.log
        batches = self.invariants.books[number].batches
        if not batches or batches[-1].next_offset != end_offset:
            raise InvariantViolated(
                "a reply waits for all of its records", f"offset {end_offset} of partition {number} ends no batch"
            )
        batch = batches[-1]

        def told(error: StorageFailed | None) -> None:
            if error is not None:
                batch.has_failed = True
            elif log.acknowledged_end < end_offset:
                raise InvariantViolated(
                    "the log acknowledges what it promises",
                    f"{batch} is stored, the log only to {log.acknowledged_end}",
                )
            else:
                batch.is_stored = True
            self._deliver(number, partial(callback, error))

        return told


class WatchedCoordinator(Coordinator):
    """Made by the shell; every call of its is looked at, and so is what the answer is."""

    def __init__(self, watch: Watch, offsets_partitions: int, settings: Settings, **more: Any) -> None:
        super().__init__(offsets_partitions, settings, **more)
        self._watch = watch
        watch.begin_coordinator()

    def handle(self, command: Command | CommitAgain, token: Any, now_ms: int) -> Effects:
        watch = self._watch
        watch.tell_time(now_ms)
        watch.check_nothing_waits()
        watch.invariants.note_request(token, self)
        effects = super().handle(command, token, now_ms)
        watch.invariants.check_decision(token, effects, now_ms)
        return watch.decided(effects, token)

    def fire(self, key: TimerKey, now_ms: int) -> Effects:
        self._watch.tell_time(now_ms)
        self._watch.check_fired(key, now_ms)
        return self._watch.decided(super().fire(key, now_ms))

    def all_stored(self, partition: int, tickets: Iterable[int], now_ms: int) -> Effects:
        watch = self._watch
        tickets = list(tickets)
        watch.tell_time(now_ms)
        watch.note("stored", f"partition {partition}", tickets)
        settled = watch.invariants.note_told_stored(partition, tickets)
        effects = super().all_stored(partition, tickets, now_ms)
        watch.invariants.check_applied(partition, settled, self)
        watch.supersede(partition)
        return watch.decided(effects)

    def failed(self, partition: int, ticket: int, code: ErrorCode, now_ms: int) -> Effects:
        watch = self._watch
        watch.tell_time(now_ms)
        watch.note("failed", f"partition {partition}", ticket, code.name)
        settled = watch.invariants.note_told_failed(partition, ticket)
        effects = super().failed(partition, ticket, code, now_ms)
        watch.invariants.check_applied(partition, settled, self)
        watch.supersede(partition)
        return watch.decided(effects)

    def finish_load(self, partition: int, now_ms: int) -> Effects:
        watch = self._watch
        watch.tell_time(now_ms)
        effects = super().finish_load(partition, now_ms)
        watch.note("loaded", f"partition {partition}")
        watch.check_served(partition)
        watch.invariants.note_loaded(partition, now_ms)
        watch.invariants.check_shard(partition, self)
        return watch.decided(effects)

    def unload(self, partition: int, now_ms: int) -> Effects:
        watch = self._watch
        watch.tell_time(now_ms)
        watch.note("unload", f"partition {partition}")
        watch.invariants.check_shard(partition, self)
        effects = super().unload(partition, now_ms)
        watch.gave_up(self, partition)
        return watch.decided(effects)

    def move_deadlines(self, by_ms: int) -> None:
        self._watch.note("clock", "moved", by_ms)
        self._watch.move_deadlines(by_ms)
        super().move_deadlines(by_ms)


class WatchedPartition(Partition):
    __slots__ = ("_watch",)

    def __init__(self, topic: TopicOfPartition, index: int, storage: LogStorage, watch: Watch) -> None:
        super().__init__(topic, index, [0], storage)
        self._watch = watch

    def append(self, batches: Buffer, now_ms: int) -> AppendResult:
        base = self.log.log_end
        taken = self._watch.before_write(self, read_header(bytes(batches)).record_count)
        try:
            result = super().append(batches, now_ms)
        except StorageFailed as error:
            self._watch.refused(self, error)
            raise
        self._watch.written(self, taken, base)
        return result

    def append_prebuilt(self, batch: bytes, next_offset: int, timestamp_ms: int, now_ms: int) -> None:
        base = self.log.log_end
        taken = self._watch.before_write(self, next_offset - base)
        try:
            super().append_prebuilt(batch, next_offset, timestamp_ms, now_ms)
        except StorageFailed as error:
            self._watch.refused(self, error)
            raise
        self._watch.written(self, taken, base)

    def when_acknowledged(self, end_offset: int, callback: OnAcknowledged) -> None:
        super().when_acknowledged(end_offset, self._watch.awaiting(self, end_offset, callback))


class WatchedStorage(LogStorage):
    """``watch`` is set before a log is opened."""

    watch: Watch

    def open_log(self, partition: Partition) -> Log:
        former = partition.log if partition.is_open else None
        log = super().open_log(partition)
        self.watch.opened(partition.index, log, former)
        return log
