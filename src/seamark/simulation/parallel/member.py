"""A simulated member: the parallel consumer's real runtime on a thread of its own, in virtual time.

What is simulated lies behind its ports: Kafka, the pool that runs handlers or the processes that the real pool runs
them in, threads and time. Beside the engine, the books hold what is decided and counted against what really happened.
"""

from __future__ import annotations

from typing import Any

from seamark.errors import UsageError
from seamark.parallel.core.engine import Engine
from seamark.parallel.core.work import Action, StopReason
from seamark.parallel.observe.status import State
from seamark.parallel.pools.pool import Mailbox, Pool
from seamark.parallel.pools.processes import ProcessPool
from seamark.parallel.run.report import status_of
from seamark.parallel.run.runtime import Runtime
from seamark.simulation.parallel.books import Books
from seamark.simulation.parallel.pools import HandlerPool, WatchedMailbox, WatchedPool
from seamark.simulation.parallel.port import SimulatedPort
from seamark.simulation.parallel.processes import CallNumber, SimulatedMachine
from seamark.simulation.parallel.threads import Program
from seamark.simulation.parallel.watched_engine import WatchedEngine
from seamark.simulation.parallel.world import World
from seamark.simulation.world.violations import InvariantViolated
from seamark.topic_partition import TopicPartition

_GROUP = "simulated"


def _handle(_argument: Any) -> None:
    """Stands for the handler that processes are started with: the world has its own."""


class SimulatedMember:
    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.is_alive = True
        self._program = Program()
        self._books = Books(name, world)
        self._mailbox = WatchedMailbox(self._books)
        self.port = SimulatedPort(self._books, lambda: self.engine, lambda: self.is_alive)
        self.port.on_wait_ended = self._mailbox.wait_ended
        self._runtime = Runtime(
            world.truth.settings,
            self.port,
            self._make_pool,
            topics=sorted({partition.topic for partition in world.logs}),
            group=_GROUP,
            ahead=world.ahead,
            clock=world.loop.clock,
            wall_clock=world.loop.clock,
            mailbox=self._mailbox,
            make_engine=self._make_engine,
        )
        world.loop.start(self._program, self._run)

    def _make_engine(self, _settings: Any, now: float, **_given: Any) -> WatchedEngine:
        return WatchedEngine(self._books, now)

    def _make_pool(self, mailbox: Mailbox) -> Pool:
        pool: Pool
        if self.world.processes:
            machine = SimulatedMachine(self._books, self._program, self)
            concurrency = self.world.truth.settings.concurrency
            pool = ProcessPool(_handle, CallNumber(self._books), mailbox, concurrency, self._cannot_go_on, machine)
        else:
            pool = HandlerPool(self._books, self._mailbox, self)
        return WatchedPool(pool, self._books, lambda: self.engine)

    def _cannot_go_on(self, reason: str) -> None:
        if not self.is_alive or self.world.loop.current.is_ending:
            return
        if not reason.startswith("a handler process could not be started"):
            raise InvariantViolated("handler processes can be had", f"{self.name}: {reason}")
        engine = self.engine
        self._mailbox.tell(lambda now: engine.stop(now, 0.0, StopReason(reason, None)))

    @property
    def engine(self) -> Engine:
        return self._runtime.engine

    @property
    def now(self) -> float:
        return self.world.loop.clock()

    @property
    def is_idle(self) -> bool:
        return self._books.is_idle and self.port.is_idle and not Mailbox.__bool__(self._mailbox)

    @property
    def is_frozen(self) -> bool:
        return self._program.frozen_until_ms > self.world.loop.now_ms

    def _run(self) -> None:
        self._runtime.run()
        self.is_alive = False
        self.world.events.append((self.world.loop.now_ms, "stopped", self.name, self._runtime.reason or "as asked"))
        self.world.handlers.member_gone(self)
        self.world.on_stopped(self.name, self._runtime.reason)

    # What the world does to it.

    def crash(self) -> None:
        self.is_alive = False
        self.world.events.append((self.world.loop.now_ms, "crash", self.name))
        self.world.handlers.member_gone(self)
        self.world.loop.end(self._program)

    def freeze(self, duration_ms: int) -> None:
        self.world.events.append((self.world.loop.now_ms, "freeze", self.name, duration_ms))
        self._program.frozen_until_ms = self.world.loop.now_ms + duration_ms

    def stop(self) -> None:
        self._mailbox.tell(self.engine.stop)

    def give_up(self, partition: TopicPartition, offset: int, *, to_dead_letters: bool) -> None:
        """An operator decides about a record that holds its partition back."""
        engine = self.engine

        def decide(now: float) -> list[Action]:
            try:
                if to_dead_letters:
                    return engine.dead_letter(partition, offset, now)
                return engine.skip(partition, offset, now)
            except UsageError:
                # It is over by now, or its partition has gone.
                return []

        self._mailbox.tell(decide)

    def ask(self) -> None:
        """Somebody wants to know how it is; what is told is of one moment."""

        def answer(_now: float) -> list[Action]:
            status = status_of(self._runtime, State.RUNNING, _GROUP)
            positions = {partition: told.position for partition, told in status.partitions.items()}
            if (positions, status.running) != (self._books.positions, self._books.calls_under_way):
                self.world.loop.fail(InvariantViolated("a status tells what is", f"{self.name}: {status}"))
            return []

        self._mailbox.tell(answer)
