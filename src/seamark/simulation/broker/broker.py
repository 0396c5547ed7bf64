"""A broker in simulated time: one process after another on one disk, and what may befall them.

Each ``BrokerProcess`` runs the shell of groups that ships. A crash takes everything but the disk. In an orderly end
the logs are closed; a node that only restarts keeps its process, with the logs open and their syncs under way.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from seamark.broker.log.partition import NO_LEADER
from seamark.coordinator import Coordinator, Settings
from seamark.coordinator.commands import Command, CommitOffsets
from seamark.coordinator.effects import TimerKey
from seamark.coordinator.offsets.commit_patterns import CommitAgain, CommitPattern
from seamark.coordinator.shard import Status
from seamark.simulation.broker.asked import Asked
from seamark.simulation.broker.invariants import Invariants
from seamark.simulation.broker.process import BrokerProcess, broker_settings, offsets_topic_config
from seamark.simulation.broker.virtual_loop import Timing
from seamark.simulation.world.connections import Request
from seamark.simulation.world.disk import SimulatedDisk
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.network import Network
from seamark.simulation.world.transcript import Event
from seamark.simulation.world.violations import InvariantViolated
from seamark.storage import Durability, Log, LogSettings, StorageFailed

_OPENED_AGAIN_MS = 300

MakeNetwork = Callable[[EventLoop, random.Random, list[Event], Callable[[Request], None]], Network]


class SimulatedBroker:
    """The broker of a lifetime."""

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
        self.log_settings = log_settings
        self._topics = topics
        self._make_id = make_id
        self.network = make_network(loop, rng, events, self.receive)
        self._settings = broker_settings(2000 + int(rng.random() * 3000), 1 + int(rng.random() ** 2 * 10_000))
        self._settings.coordinator = settings
        self.config = offsets_topic_config(log_settings)
        # Of each partition the leader's epoch, and how often it was given up.
        self._epochs = [0] * offsets_partitions
        self._moves = [0] * offsets_partitions
        self.timing = Timing()
        self.crashes_lose_power = False
        self.restart_delay_ms = 500
        # How long a partition may take to load once its log is open.
        self.load_ms = 400
        self.crashes = 0
        self.unloads = 0
        self._patterns: dict[Any, CommitPattern | None] = {}
        # What is to happen as soon as something is about to be stored.
        self._at_an_append: Callable[[], None] | None = None
        self._process: BrokerProcess | None = None

    @property
    def process(self) -> BrokerProcess:
        assert self._process is not None, "the broker was not started"
        return self._process

    @property
    def coordinator(self) -> Coordinator:
        return self.process.runtime.coordinator

    @property
    def is_up(self) -> bool:
        return self.network.is_broker_up

    @property
    def is_serving(self) -> bool:
        """Whether every partition is loaded."""
        shards = self.coordinator.shards
        return (
            self.is_up
            and len(shards) == len(self._epochs)
            and all(shard.status is Status.ACTIVE for shard in shards.values())
        )

    @property
    def has_open_appends(self) -> bool:
        return any(shard.tickets_in_flight for shard in self.coordinator.shards.values())

    @property
    def armed_timers(self) -> dict[TimerKey, int]:
        return self.process.watch.timers

    def log_of(self, partition: int) -> Log | None:
        """The log, None for one that was never written to."""
        found = self.process.partitions[partition]
        return found.log if found.is_open else None

    # -- life and death

    def start(self) -> None:
        """Begin another process: it listens at once and loads its partitions one after the other."""
        self._process = BrokerProcess(
            self._loop,
            self._rng,
            self._events,
            self.disk,
            self._invariants,
            settings=self._settings,
            config=self.config,
            topics=self._topics,
            make_id=self._make_id,
            timing=self.timing,
            crashed=self._crash_at_the_disk,
        )
        self._listen()

    def _listen(self) -> None:
        self.network.broker_life += 1
        self.network.is_broker_up = True
        self._note("start", f"process {self.network.broker_life}")
        for number in range(len(self._epochs)):
            self._lead_later(number, int(self._rng.random() * 50))

    def _note(self, kind: str, *facts: Any) -> None:
        self._events.append((self._loop.now_ms, kind, *facts))

    def crash(self, *, lose_power: bool) -> None:
        """End the process here and now, and start the next one a little later."""
        process = self._process
        if process is None or not process.is_alive:
            return
        self.crashes += 1
        self._note("crash", "power loss" if lose_power else "kill")
        self.disk.stop()
        process.end()
        for number, partition in enumerate(process.partitions):
            self._invariants.books[number].expect(
                partition.log.durable_end if partition.is_open else None,
                is_power_loss=lose_power,
                is_synced_before_replies=self.log_settings.durability is Durability.COMMIT,
            )
            self._invariants.check_shard(number, self.coordinator)
        if lose_power:
            self.disk.lose_power()
        else:
            self.disk.kill()
        self._be_gone()
        self._loop.call_later(self.restart_delay_ms, self.start)

    def _crash_at_the_disk(self) -> None:
        self.crash(lose_power=self.crashes_lose_power)

    def _be_gone(self) -> None:
        self._invariants.note_crash()
        if self.is_up:
            self.network.lose_broker()

    def restart(self) -> None:
        """End the process in an orderly way, or only its node; at once, or when something is being stored."""
        if self._rng.random() < 0.3:
            self._restart()
        else:
            self._at_an_append = self._restart

    def _restart(self) -> None:
        if self.is_up:
            self.process.enter(self._stop_process if self._rng.random() < 0.4 else self._stop_node, self.process)

    def _stop_process(self, process: BrokerProcess) -> None:
        self._note("stop", "process")
        process.stop()
        self._check_all_answered()
        for number, partition in enumerate(process.partitions):
            if partition.is_open:
                books = self._invariants.books[number]
                books.expect(partition.log.durable_end, is_power_loss=False, is_synced_before_replies=True)
        process.end()
        self._be_gone()
        self._loop.call_later(self.restart_delay_ms, self.start)

    def _stop_node(self, process: BrokerProcess) -> None:
        """Only the node ends, and what it coordinates; partitions and syncs go on without it."""
        self._note("stop", "node")
        for number in range(len(process.partitions)):
            self._moves[number] += 1
            process.lose(number)
        process.runtime.stop()
        self._check_all_answered()
        self._be_gone()
        # Often so soon that outcomes of the former life are still to come.
        delay_ms = int(max(0.0, self._rng.random() - 0.6) * self.restart_delay_ms)
        self._loop.call_later(delay_ms, process.enter, self._start_node, process)

    def _start_node(self, process: BrokerProcess) -> None:
        process.runtime.start()
        self._listen()

    def _check_all_answered(self) -> None:
        for asked in self._invariants.outstanding:
            raise InvariantViolated("every request is answered exactly once", f"{asked.command} waits after the end")

    # -- leadership

    def unload(self, number: int, reload_ms: int) -> None:
        """Give a partition up and take it back later: now, when something is being stored, or twice in a row."""
        draw = self._rng.random()
        if draw < 0.5 or not self.is_up:
            self._unload(number, reload_ms)
        elif draw < 0.8:
            self._at_an_append = partial(self._unload, number, reload_ms if draw < 0.65 else 0)
        else:
            self._unload(number, reload_ms)
            self.process.while_loading = partial(self._unload, number, reload_ms)

    def _unload(self, number: int, reload_ms: int) -> None:
        process = self.process
        if not self.is_up or process.partitions[number].leader == NO_LEADER:
            return
        self.unloads += 1
        if reload_ms:
            process.enter(self._give_up, process, number)
            if process.is_alive:
                self._lead_later(number, reload_ms)
        else:
            # The node stays the leader, in a new epoch.
            process.enter(self._lead_anew, process, number)

    def _lead_anew(self, process: BrokerProcess, number: int) -> None:
        self._give_up(process, number)
        self._lead(process, number, self._moves[number])

    def _give_up(self, process: BrokerProcess, number: int) -> None:
        partition = process.partitions[number]
        self._moves[number] += 1
        process.lose(number)
        if partition.is_open:
            self._invariants.check_log(number, partition.log, self.disk, "at an unload")

    def _lead_later(self, number: int, delay_ms: int) -> None:
        process = self.process
        self._loop.call_later(delay_ms, process.enter, self._lead, process, number, self._moves[number])

    def _lead(self, process: BrokerProcess, number: int, moves: int) -> None:
        if not self.is_up or self._moves[number] != moves:
            return
        try:
            self._epochs[number] += 1
            process.lead(number, self._epochs[number], int(self._rng.random() * self.load_ms))
        except StorageFailed as error:
            self._note("disk", str(error))
            self._lead_later(number, _OPENED_AGAIN_MS)

    # -- requests

    def receive(self, request: Request) -> None:
        """Take a request for the coordinator from the network."""
        self._events.append((self._loop.now_ms, "request", request.connection.peer.name, request.command))
        process = self.process
        process.enter(process.runtime.submit, self._as_repeated(request.command), Asked(request, self._reply))
        if self._at_an_append is not None and any(books.in_flight for books in self._invariants.books):
            call, self._at_an_append = self._at_an_append, None
            if self._rng.random() < 0.4:
                call()
            else:
                self._loop.call_later(int(self._rng.random() * 4), call)

    def _as_repeated(self, command: Command) -> Command | CommitAgain:
        """Now and then a commit comes in the form that a connection gives to those it has seen before."""
        if type(command) is not CommitOffsets or self._rng.random() < 0.8:
            return command
        entries = [(topic, each) for topic, partitions in command.topics for each in partitions]
        common = tuple((topic, partition, epoch, metadata) for topic, (partition, _, epoch, metadata) in entries)
        key = (command.group_id, command.generation, command.member_id, command.instance_id, common)
        if key not in self._patterns:
            self._patterns[key] = CommitPattern.of(command)
        pattern = self._patterns[key]
        return command if pattern is None else CommitAgain(pattern, [each[1] for _, each in entries])

    def _reply(self, asked: Asked, reply: Any) -> None:
        process = self.process
        self._invariants.check_reply(asked, reply, process.runtime.coordinator, process.watch.now_ms)
        request = asked.request
        self._events.append((self._loop.now_ms, "reply", request.connection.peer.name, reply))
        self.network.answer(request, reply)
