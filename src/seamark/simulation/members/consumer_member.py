"""A member of a simulated group that is the real client: its cores, its calls, and an application that uses them.

Implements ``clients.Member``. Each start is a new process with a clock of its own; what is left of an earlier one never
runs again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from seamark.client.cluster_view import Node
from seamark.client.consumer.calls import ConsumerCalls
from seamark.client.core.membership.context import MemberState
from seamark.client.core.settings import ConsumerSettings
from seamark.simulation.members.applications import Application, Style
from seamark.simulation.members.caller import Caller
from seamark.simulation.members.consumer_shell import ConsumerShell
from seamark.simulation.members.record_source import RecordSource
from seamark.simulation.world.deliveries import Belief, Deliveries
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.process_clock import ProcessClock
from seamark.simulation.world.topic_logs import TopicLogs
from seamark.simulation.world.transcript import Event
from seamark.simulation.world.wire_network import WireNetwork
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    from seamark.client.consumer.shell import ConsumerLoop


@dataclass(frozen=True, slots=True)
class ConsumerHabits:
    """How an application uses its consumer, and what is configured beside the core's settings."""

    style: Style
    has_pattern: bool = False
    poll_s: float = 1.0
    max_records: int = 10
    work_ms: int = 5
    commit_s: float = 8.0
    close_s: float = 5.0
    metadata_max_age_ms: int = 5000


class Process:
    """One run of the program, from its start to its end."""

    def __init__(self, member: ConsumerMember, loop: EventLoop, rng: random.Random, events: list[Event]) -> None:
        habits = member.habits
        self.clock = ProcessClock(loop)
        self.caller = Caller(self.clock, member.on_end)
        self._terms: dict[TopicPartition, int] = {}
        self._member = member
        self.shell = ConsumerShell(
            member.name,
            member.settings,
            self.clock,
            rng,
            events,
            member.wire,
            RecordSource(self.clock, rng, member.logs, self._on_start),
            member.bootstrap,
            metadata_max_age_ms=habits.metadata_max_age_ms,
            on_change=self.caller.look_again,
            on_event=member.on_event,
        )
        # The calls need of a loop what the shell has.
        calls = ConsumerCalls(cast("ConsumerLoop", self.shell))
        self.application = Application(
            member.name,
            member.group_id,
            member.topics,
            habits.style,
            calls,
            self.clock,
            rng,
            member.deliveries,
            has_pattern=habits.has_pattern,
            poll_s=habits.poll_s,
            max_records=habits.max_records,
            work_ms=habits.work_ms,
            commit_s=habits.commit_s,
            close_s=habits.close_s,
        )

    def _on_start(self, partition: TopicPartition, offset: int, term: int) -> None:
        """Only the first position of an assignment is the committed one; later ones are the caller's own."""
        if self._terms.get(partition) != term:
            self._terms[partition] = term
            member = self._member
            membership = self.shell.core.membership
            generation = membership.generation
            if not member.is_let_in(generation.member_id, generation.generation_id):
                # The group has gone on without it, and it does not know yet; nothing it commits is taken.
                return
            end = member.logs.partitions[partition].end
            member.deliveries.check_start(member.group_id, member.name, partition, offset, end)

    def end(self) -> None:
        self.clock.end()
        self.caller.end()
        self.shell.links.close()


class ConsumerMember:
    is_turned_away = False

    def __init__(
        self,
        name: str,
        settings: ConsumerSettings,
        habits: ConsumerHabits,
        topics: tuple[str, ...],
        loop: EventLoop,
        rng: random.Random,
        events: list[Event],
        wire: WireNetwork,
        logs: TopicLogs,
        deliveries: Deliveries,
        bootstrap: list[Node],
        is_let_in: Callable[[str, str, int], bool],
    ) -> None:
        self.name = name
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
        self.bootstrap = bootstrap
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
        if process is None or process.clock.paused_until_ms > self._loop.now_ms or process.application.is_slow:
            return False
        if not all(map(self.wire.flows, process.shell.links.to_coordinators)):
            # It does not know yet that it talks to nobody.
            return False
        core = process.shell.core
        membership = core.membership
        return membership.is_settled and membership.is_coordinator_known and not core.positions.is_missing()

    @property
    def is_leaving(self) -> bool:
        return self._process is not None and self._process.application.is_leaving

    @property
    def member_id(self) -> str:
        return "" if self._process is None else self._process.shell.core.membership.generation.member_id

    @property
    def generation(self) -> int:
        return -1 if self._process is None else self._process.shell.core.membership.generation.generation_id

    @property
    def owned(self) -> list[tuple[str, int]]:
        if self._process is None:
            return []
        return [(topic, number) for topic, number in self._process.shell.core.membership.owned]

    # -- what a lifetime does to it

    def start(self) -> None:
        if self._is_silent:
            return
        if self._process is not None:
            # Its predecessor has not closed yet.
            self._starts_again = self.is_leaving
            return
        process = self._process = Process(self, self._loop, self._rng, self._events)
        process.caller.begin(process.application.run())

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
            process.clock.run(process.shell.wake)

    def pause(self, duration_ms: int) -> None:
        if self._process is not None:
            self._process.clock.pause(duration_ms)

    def slow_down(self, duration_ms: int) -> bool:
        """Let user code take so long with its next batch; heartbeats go on."""
        if self._process is None:
            return False
        self._process.application.slow_ms = duration_ms
        return True

    def disconnect(self) -> bool:
        connections = [] if self._process is None else self._process.shell.links.open
        if not connections:
            return False
        self.wire.break_connection(connections[int(self._rng.random() * len(connections))])
        return True

    def fall_silent(self) -> None:
        self._is_silent = True
        self.crash()

    def is_let_in(self, member_id: str, generation: int) -> bool:
        """Does the coordinator count it to the generation?"""
        return self._is_let_in(self.group_id, member_id, generation)

    # -- what the process tells

    def on_event(self) -> None:
        """After everything that happens to the core: what does the member hold for true?"""
        process = self._process
        if process is None:
            return
        membership = process.shell.core.membership
        if membership.state is not MemberState.STABLE:
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
