"""A broker's shell around the coordinator and its logs, in virtual time: what the real one does, without asyncio.

Effects are carried out in their order: replies, appends, timers. An append's outcome goes back to the coordinator
when the log's durability allows a reply: after the write, or after a sync that many appends share. A log that stopped
its writes is given up and opened again. A crash takes everything but the disk.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator

from seamark.coordinator import Coordinator, Effects, Settings
from seamark.coordinator.effects import Append, Arm, TimerKey
from seamark.coordinator.shard import Status
from seamark.coordinator.shard_state import SWEEP_TIMER
from seamark.coordinator.storing.records import Record
from seamark.coordinator.storing.stored import from_bytes, last_records, to_bytes
from seamark.simulation.broker.invariants import Invariants
from seamark.simulation.world.books import Batch
from seamark.simulation.world.connections import Request
from seamark.simulation.world.disk import Crashed, SimulatedDisk
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.network import Network
from seamark.simulation.world.partition_log import PartitionLog
from seamark.simulation.world.transcript import Event
from seamark.storage import Durability, Log, LogSettings, OpenFiles, StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records import Record as LogRecord
from seamark.wire.records import encode_batch

_LEADER_EPOCH = 0
# How long the next step of a long removal may have to wait.
_LONGEST_TURNS_MS = 1000

MakeNetwork = Callable[[EventLoop, random.Random, list[Event], Callable[[Request], None]], Network]


class SimulatedBroker:
    """One process after another on one disk."""

    def __init__(
        self,
        loop: EventLoop,
        rng: random.Random,
        events: list[Event],
        disk: SimulatedDisk,
        invariants: Invariants,
        *,
        settings: Settings,
        log_settings: LogSettings,
        offsets_partitions: int,
        topics: dict[str, int],
        make_id: Callable[[], str],
        make_network: MakeNetwork = Network,
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._events = events
        self.disk = disk
        self._invariants = invariants
        self._settings = settings
        self.log_settings = log_settings
        self._topics = topics
        self._make_id = make_id
        self.network = make_network(loop, rng, events, self.receive)
        self._partitions = [
            PartitionLog(number, self, loop, rng, events, log_settings.durability)
            for number in range(offsets_partitions)
        ]
        # So few that segments lose their files while they are written to, synced and compacted.
        self.open_files = OpenFiles(1 + int(rng.random() * 3))
        self.coordinator = self._new_coordinator()
        self._timers: dict[TimerKey, int] = {}
        self._timer_number = 0
        self._queue: deque[tuple[Effects, Request | None]] = deque()
        self._is_draining = False
        # The broker's clock is virtual time plus what its steps add up to.
        self.clock_error_ms = 0
        self.disk_delay_ms = 0
        self.reorders_acknowledgements = False
        self.crashes_lose_power = False
        self.restart_delay_ms = 500
        # How long a partition may take to load once its log is open.
        self.load_ms = 400
        self.crashes = 0
        self.unloads = 0

    def _new_coordinator(self) -> Coordinator:
        return Coordinator(
            len(self._partitions), self._settings, partition_count=self._topics.get, make_id=self._make_id
        )

    @property
    def now_ms(self) -> int:
        return self._loop.now_ms + self.clock_error_ms

    @property
    def is_up(self) -> bool:
        return self.network.is_broker_up

    @property
    def is_serving(self) -> bool:
        """Whether every partition is loaded."""
        shards = self.coordinator.shards
        return (
            self.is_up
            and len(shards) == len(self._partitions)
            and all(shard.status is Status.ACTIVE for shard in shards.values())
        )

    @property
    def has_open_appends(self) -> bool:
        return any(shard.tickets_in_flight for shard in self.coordinator.shards.values())

    @property
    def armed_timers(self) -> dict[TimerKey, int]:
        return self._timers

    def log_of(self, partition: int) -> Log | None:
        return self._partitions[partition].log

    # -- life and death

    def start(self) -> None:
        """Begin another process: it listens at once and loads its partitions one after the other."""
        self.coordinator = self._new_coordinator()
        self.open_files = OpenFiles(1 + int(self._rng.random() * 3))
        self.network.broker_life += 1
        self.network.is_broker_up = True
        self._events.append((self._loop.now_ms, "start", f"process {self.network.broker_life}"))
        for partition in self._partitions:
            self._loop.call_later(int(self._rng.random() * 50), self._begin_load, partition, partition.life)

    def crash(self, *, lose_power: bool) -> None:
        """End the process here and now, and start the next one a little later."""
        if not self.is_up:
            return
        self.crashes += 1
        self._events.append((self._loop.now_ms, "crash", "power loss" if lose_power else "kill"))
        self.disk.stop()
        for partition in self._partitions:
            books = self._invariants.books[partition.number]
            log = partition.log
            books.expect(
                None if log is None else log.durable_end,
                is_power_loss=lose_power,
                is_synced_before_replies=self.log_settings.durability is Durability.COMMIT,
            )
            if log is not None:
                self._invariants.check_shard(partition.number, self.coordinator)
            partition.let_go()
        if lose_power:
            self.disk.lose_power()
        else:
            self.disk.kill()
        self._end_process()

    def restart(self) -> None:
        """End the process in an orderly way: partitions are given up and logs closed."""
        if self.is_up:
            self.guard(self._stop)

    def _stop(self) -> None:
        for partition in self._partitions:
            self._give_up(partition)
        self._events.append((self._loop.now_ms, "stop"))
        self._end_process()

    def _end_process(self) -> None:
        self._timers = {}
        self._invariants.note_crash()
        self.network.lose_broker()
        self._loop.call_later(self.restart_delay_ms, self.start)

    def guard(self, call: Callable[[], None]) -> None:
        """Run a piece of the process; a crash of the disk in it is the end of the process."""
        try:
            call()
        except Crashed:
            self._is_draining = False
            self._queue.clear()
            self.crash(lose_power=self.crashes_lose_power)

    # -- loading

    def unload(self, number: int, reload_ms: int) -> None:
        """Give a partition up and take it back later."""
        partition = self._partitions[number]
        if not self.is_up or partition.log is None:
            return
        self.unloads += 1
        self.guard(lambda: self._give_up(partition))
        if self.is_up:
            self._loop.call_later(reload_ms, self._begin_load, partition, partition.life)

    def _give_up(self, partition: PartitionLog) -> None:
        number = partition.number
        self._events.append((self._loop.now_ms, "unload", f"partition {number}"))
        self._invariants.check_shard(number, self.coordinator)
        self._carry_out(self.coordinator.unload(number, self.now_ms))
        self._invariants.check_unloaded(number, self.coordinator)
        log = partition.log
        if log is not None:
            self._invariants.check_log(number, log, self.disk, "at an unload")
            partition.stop_compaction()
            try:
                log.close()
            except StorageFailed as error:
                self._events.append((self._loop.now_ms, "disk", str(error)))
            self._invariants.books[number].expect(log.durable_end, is_power_loss=False, is_synced_before_replies=True)
        self._invariants.books[number].note_unloaded()
        partition.let_go()

    def _begin_load(self, partition: PartitionLog, life: int) -> None:
        if self.is_up and partition.life == life and partition.log is None:
            self.guard(lambda: self._open(partition))

    def _open(self, partition: PartitionLog) -> None:
        number = partition.number
        shard = self.coordinator.shard(number)
        if shard.status is Status.UNLOADED:
            self.coordinator.begin_load(number)
        try:
            log = Log.open(
                self.disk,
                f"offsets-{number}",
                self.log_settings,
                now_ms=self.now_ms,
                open_files=self.open_files,
            )
        except StorageFailed as error:
            self._events.append((self._loop.now_ms, "disk", str(error)))
            self._loop.call_later(300, self._begin_load, partition, partition.life)
            return
        self._events.append((self._loop.now_ms, "open", f"partition {number}", log.log_start, log.log_end))
        partition.log = log
        self._invariants.note_opened(number, log.log_end)
        entries = self._invariants.check_log(number, log, self.disk, "after an opening")
        self._loop.call_later(
            int(self._rng.random() * self.load_ms), self._finish_load, partition, partition.life, entries
        )

    def _finish_load(self, partition: PartitionLog, life: int, entries: list[LogRecord]) -> None:
        if not self.is_up or partition.life != life:
            return
        number = partition.number
        pairs = ((entry.key, entry.value) for entry in entries)
        if self._rng.random() < 0.5:
            self.coordinator.replay(number, last_records(pairs))
        else:
            self.coordinator.replay(number, _decoded(pairs))
        effects = self.coordinator.finish_load(number, self.now_ms)
        self._events.append((self._loop.now_ms, "loaded", f"partition {number}"))
        self._invariants.note_loaded(number, self.now_ms)
        self._invariants.check_shard(number, self.coordinator)
        self._carry_out(effects)
        partition.begin()

    # -- requests, timers and outcomes

    def receive(self, request: Request) -> None:
        """Take a request for the coordinator from the network."""
        self._events.append((self._loop.now_ms, "request", request.connection.peer.name, request.command))
        self.guard(lambda: self._handle(request))

    def _handle(self, request: Request) -> None:
        self._invariants.note_request(request, self.coordinator)
        effects = self.coordinator.handle(request.command, request, self.now_ms)
        self._invariants.check_decision(request, effects, self.now_ms)
        self._carry_out(effects, request)

    def _fire(self, key: TimerKey, number: int) -> None:
        if self._timers.get(key) == number:
            del self._timers[key]
            self.guard(lambda: self._carry_out(self.coordinator.fire(key, self.now_ms)))

    def _carry_out(self, effects: Effects, request: Request | None = None) -> None:
        """Do what the coordinator wants, and then what it wants because of that: appends keep the order of tickets."""
        self._queue.append((effects, request))
        if self._is_draining:
            return
        self._is_draining = True
        while self._queue:
            self._carry_out_one(*self._queue.popleft())
        self._is_draining = False

    def _carry_out_one(self, effects: Effects, request: Request | None) -> None:
        if effects.log_lines:
            self._invariants.note_log_lines(effects.log_lines)
        for token, reply in effects.replies:
            assert isinstance(token, Request)
            self._invariants.check_reply(token, reply, self.coordinator, self.now_ms)
            self._events.append((self._loop.now_ms, "reply", token.connection.peer.name, reply))
            self.network.answer(token, reply)
        for append in effects.appends:
            self._append(append, request)
        for timer in effects.timers:
            if type(timer) is Arm:
                self._timer_number += 1
                self._timers[timer.key] = self._timer_number
                due_ms = timer.deadline_ms - self.clock_error_ms
                if timer.key[1] == SWEEP_TIMER:
                    # Others have their turn first, and they may be many.
                    due_ms += int(self._rng.random() * _LONGEST_TURNS_MS)
                self._loop.call_at(due_ms, self._fire, timer.key, self._timer_number)
            else:
                self._timers.pop(timer.key, None)

    def _append(self, append: Append, request: Request | None) -> None:
        partition = self._partitions[append.partition]
        log = partition.log
        assert log is not None
        now_ms = self.now_ms
        records = [LogRecord(index, now_ms, key=key, value=value) for index, (key, value) in _encoded(append.records)]
        books = self._invariants.books[append.partition]
        self._invariants.note_intention(append.records)
        if self.disk.is_faulty and books.uncertain is None and log.writes_stopped is None:
            # A crash or an error in the middle may leave all of it.
            books.uncertain = append.records
        try:
            place = log.append(encode_batch(records), now_ms, _LEADER_EPOCH)
        except StorageFailed as error:
            self._events.append((self._loop.now_ms, "disk", str(error)))
            if log.writes_stopped is None:
                books.uncertain = None
                self._carry_out(
                    self.coordinator.failed(append.partition, append.ticket, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)
                )
            else:
                # Whether the records are there is not known until the log is opened again, so no outcome is reported.
                self.give_up_later(partition)
            return
        books.uncertain = None
        batch = books.note_append(append.ticket, append.records, place.base_offset, place.last_offset + 1)
        if request is not None and request.batch is None:
            request.batch = batch
        partition.acknowledge_later(batch)

    def give_up_later(self, partition: PartitionLog) -> None:
        self._loop.call_later(0, self._reopen, partition, partition.life)

    def _reopen(self, partition: PartitionLog, life: int) -> None:
        if self.is_up and partition.life == life:
            self.unload(partition.number, 200)

    def settle(self, partition: PartitionLog, batches: list[Batch]) -> None:
        life = partition.life
        if self.reorders_acknowledgements:
            self._rng.shuffle(batches)
        for batch in batches:
            if partition.life != life:
                return
            settled = self._invariants.note_acknowledged(partition.number, batch)
            self._events.append((self._loop.now_ms, "stored", f"partition {partition.number}", batch.ticket))
            effects = self.coordinator.stored(partition.number, batch.ticket, self.now_ms)
            self._invariants.check_applied(partition.number, settled, self.coordinator)
            self._carry_out(effects)
            self._invariants.books[partition.number].superseded.clear()


def _encoded(records: list[Record]) -> Iterator[tuple[int, tuple[bytes, bytes | None]]]:
    return enumerate(map(to_bytes, records))


def _decoded(pairs: Iterator[tuple[bytes | None, bytes | None]]) -> Iterator[Record]:
    for key, value in pairs:
        record = from_bytes(key, value)
        if record is not None:
            yield record
