"""A member of a simulated group that is the real client, and an application that uses it.

Implements ``clients.Member``. Each start is a new process with a loop of its own; what is left of an earlier one never
runs again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seamark.client.core.membership.context import MemberState
from seamark.client.core.settings import ConsumerSettings
from seamark.simulation.members.applications import Application, Style
from seamark.simulation.members.consumer_process import VirtualSurroundings, WatchedConsumer
from seamark.simulation.members.record_source import RecordSource
from seamark.simulation.world.deliveries import Belief, Deliveries
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.memory_transport import MemoryTransport, opener
from seamark.simulation.world.topic_logs import TopicLogs
from seamark.simulation.world.transcript import Event
from seamark.simulation.world.violations import InvariantViolated
from seamark.simulation.world.virtual_loop import VirtualLoop
from seamark.simulation.world.wire_network import WireNetwork
from seamark.topic_partition import TopicPartition

_LATEST_WAKE_MS = 1500


@dataclass(frozen=True, slots=True)
class ConsumerHabits:
    """How an application uses its consumer."""

    style: Style
    has_pattern: bool = False
    poll_s: float = 1.0
    max_records: int = 10
    work_ms: int = 5
    commit_s: float = 8.0
    close_s: float = 5.0


class Process:
    """One run of the program, from its start to its end."""

    def __init__(self, member: ConsumerMember, calls: EventLoop, rng: random.Random, events: list[Event]) -> None:
        habits = member.habits
        self.transports: list[MemoryTransport] = []
        connect = opener(member.name, member.wire, rng, self.transports)
        self.loop = VirtualLoop(calls, connect, member.on_step)  # type: ignore[abstract]
        self._terms: dict[TopicPartition, int] = {}
        self._member = member
        source = RecordSource(self.loop, rng, member.logs, self._on_start)
        surroundings = VirtualSurroundings(member.name, self.loop, calls, rng, events)
        self.consumer = WatchedConsumer(member.options, lambda *_: source, surroundings)
        self.membership = self.consumer.core.membership
        self.application = Application(
            member.name,
            member.group_id,
            member.topics,
            habits.style,
            self.consumer,
            self.loop,
            rng,
            member.deliveries,
            has_pattern=habits.has_pattern,
            poll_s=habits.poll_s,
            max_records=habits.max_records,
            work_ms=habits.work_ms,
            commit_s=habits.commit_s,
            close_s=habits.close_s,
        )

    def begin(self) -> None:
        self.loop.create_task(self.application.run()).add_done_callback(self._ended)

    def wake(self) -> None:
        if not self.application.is_closed:
            self.loop.enter(self.consumer.wakeup)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = task.exception()
        if error is None and self.open:
            error = InvariantViolated(
                "a consumer that was closed leaves nothing behind",
                f"{self._member.name} has connections to nodes {[each.connection.node for each in self.open]}",
            )
        self._member.on_end(error)

    def _on_start(self, partition: TopicPartition, offset: int, term: int) -> None:
        """Only the first position of an assignment is the committed one; later ones are the caller's own."""
        if self._terms.get(partition) != term:
            self._terms[partition] = term
            member = self._member
            generation = self.consumer.core.membership.generation
            if not member.is_let_in(generation.member_id, generation.generation_id):
                # The group has gone on without it, and it does not know yet; nothing it commits is taken.
                return
            end = member.logs.partitions[partition].end
            member.deliveries.check_start(member.group_id, member.name, partition, offset, end)

    @property
    def open(self) -> list[MemoryTransport]:
        return [each for each in self.transports if each.connection.is_open]

    def end(self) -> None:
        self.loop.end()
        for transport in self.open:
            transport.connection.is_open = False


class ConsumerMember:
    is_turned_away = False

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        settings: ConsumerSettings,
        habits: ConsumerHabits,
        topics: tuple[str, ...],
        loop: EventLoop,
        rng: random.Random,
        events: list[Event],
        wire: WireNetwork,
        logs: TopicLogs,
        deliveries: Deliveries,
        is_let_in: Callable[[str, str, int], bool],
    ) -> None:
        self.name = name
        self.options = options
        self.settings = settings
        self.habits = habits
        self.group_id = settings.membership.group_id
        self.instance_id = settings.membership.instance_id
        self.topics = topics
        self._loop = loop
        self._rng = rng
        self._events = events
        self.wire = wire
        self.logs = logs
        self.deliveries = deliveries
        self._is_let_in = is_let_in
        self._process: Process | None = None
        self._starts_again = False
        self._is_silent = False
        self._belief: Belief | None = None

    # -- what a lifetime sees

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def is_settled(self) -> bool:
        process = self._process
        if process is None or process.loop.paused_until_ms > self._loop.now_ms or process.application.is_slow:
            return False
        to_coordinators = [each.connection for each in process.open if each.carries_group]
        if not to_coordinators or not all(map(self.wire.flows, to_coordinators)):
            # It does not know yet that it talks to nobody.
            return False
        core = process.consumer.core
        membership = core.membership
        return membership.is_settled and membership.is_coordinator_known and not core.positions.is_missing()

    @property
    def is_leaving(self) -> bool:
        return self._process is not None and self._process.application.is_leaving

    @property
    def member_id(self) -> str:
        return "" if self._process is None else self._process.consumer.core.membership.generation.member_id

    @property
    def generation(self) -> int:
        return -1 if self._process is None else self._process.consumer.core.membership.generation.generation_id

    @property
    def owned(self) -> list[tuple[str, int]]:
        if self._process is None:
            return []
        return [(topic, number) for topic, number in self._process.consumer.core.membership.owned]

    # -- what a lifetime does to it

    def start(self) -> None:
        if self._is_silent:
            return
        if self._process is not None:
            # Its predecessor has not closed yet.
            self._starts_again = self.is_leaving
            return
        process = self._process = Process(self, self._loop, self._rng, self._events)
        process.loop.enter(process.begin)

    def crash(self) -> None:
        process, self._process = self._process, None
        self._starts_again = False
        if process is not None:
            process.end()
            self._believe(None)

    def leave(self) -> None:
        process = self._process
        if process is not None:
            process.application.is_leaving = True
            # A loop that sees it by itself ends in the middle of its records; one that waits is woken.
            self._loop.call_later(int(self._rng.random() ** 2 * _LATEST_WAKE_MS), process.wake)

    def pause(self, duration_ms: int) -> None:
        if self._process is not None:
            self._process.loop.pause(duration_ms)

    def slow_down(self, duration_ms: int) -> bool:
        """Let user code take so long with its next batch; heartbeats go on."""
        if self._process is None:
            return False
        self._process.application.slow_ms = duration_ms
        return True

    def disconnect(self) -> bool:
        transports = [] if self._process is None else self._process.open
        if not transports:
            return False
        self.wire.break_connection(transports[int(self._rng.random() * len(transports))].connection)
        return True

    def fall_silent(self) -> None:
        self._is_silent = True
        self.crash()

    def is_let_in(self, member_id: str, generation: int) -> bool:
        """Does the coordinator count it to the generation?"""
        return self._is_let_in(self.group_id, member_id, generation)

    # -- what the process tells

    def on_step(self) -> None:
        """After everything that happens in the process: what does the member hold for true?"""
        process = self._process
        if process is None:
            return
        membership = process.membership
        if membership.state is not MemberState.STABLE:
            if self._belief is not None:
                self._believe(None)
            return
        generation, belief = membership.generation.generation_id, self._belief
        owned = membership.owned
        if belief is None or belief.owned is not owned or belief.generation != generation:
            self._believe(Belief(self.name, self.instance_id or self.name, generation, owned))

    def _believe(self, belief: Belief | None) -> None:
        if belief is not self._belief:
            self._belief = belief
            self.deliveries.check_belief(self.group_id, belief, self.name)

    def on_end(self, error: BaseException | None) -> None:
        self._events.append((self._loop.now_ms, "ended", self.name, repr(error) if error is not None else ""))
        if error is not None:
            raise error
        starts_again = self._starts_again
        self.crash()
        if starts_again:
            self.start()
