"""Handler processes of one simulated member, and the machine that the real pool of processes runs them on.

A process takes the steps of ``ProcessSide``; it may die before it is ready, before each step, within a message, or
while its handler runs. Its death closes the pipe, unless a copy of the process holds that open; that the process is
gone may be known a little later. All else is the real pool's: who feeds it, what it believes, what it concludes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from seamark.parallel.core.work import InFlightRecord
from seamark.parallel.pools.call import Argument
from seamark.parallel.pools.machine import Child, Thread
from seamark.parallel.pools.process_calls import MOST_CALLS, ProcessSide, Step
from seamark.parallel.pools.process_frames import FrameReader, framed
from seamark.parallel.pools.worker import END, LIST_LENGTH, READY
from seamark.simulation.parallel.books import Books, Call
from seamark.simulation.parallel.threads import Condition, Program, SimulatedThread
from seamark.simulation.parallel.world import HandlerOwner

_KILLED = -9


class CallNumber(Argument):
    """What a simulated process is sent for a call: its number in the books. Some calls cannot be sent at once."""

    def __init__(self, books: Books) -> None:
        super().__init__()
        self._books = books

    @property
    def is_arrow(self) -> bool:
        """Sent as it is made here, not as records."""
        return True

    def of_works(self, works: Sequence[InFlightRecord]) -> int:
        world = self._books.world
        if world.rng.random() < world.chances.deaths / 10:
            raise ValueError("the records of this call cannot be sent")
        return self._books.number_of(works)

    def __reduce__(self) -> tuple[type[Argument], tuple[()]]:
        return Argument, ()


class SimulatedMachine:
    def __init__(self, books: Books, program: Program, member: HandlerOwner) -> None:
        self.books = books
        self.world = books.world
        self.member = member
        self.clock = self.world.loop.clock
        self.sleep = self.world.loop.wait
        self.processors = self.world.processes
        self._program = program
        self._pids = 0

    def condition(self) -> Condition:
        return Condition(self.world.loop)

    def start_thread(self, target: Callable[[], object], name: str) -> Thread:  # noqa: ARG002 - nobody reads names
        return self.world.loop.start(self._program, target)

    def spawn(self, payload: bytes) -> Child:  # noqa: ARG002 - the handler is the world's
        self._pids += 1
        return _Process(self, self._pids)


class _Process:
    def __init__(self, machine: SimulatedMachine, pid: int) -> None:
        self._machine = machine
        self._world = machine.world
        self.pid: int | None = pid
        self.exit_code: int | None = None
        self.states: Any = [0] * MOST_CALLS
        self._side = ProcessSide()
        self._frames = FrameReader()
        self._lists: list[bytes] = []
        self._answers = bytearray()
        self._is_busy = False
        self._is_dead = False
        self._is_pipe_open = True
        self._gone_at_ms = 0
        self._waiting: SimulatedThread | None = None
        self._world.loop.call_later(int(self._world.rng.random() * 200), self._begin)

    # The owner's end.

    def is_gone(self) -> bool:
        return self._is_dead and self._world.loop.now_ms >= self._gone_at_ms

    def kill(self) -> None:
        self._die()

    def send(self, content: memoryview) -> int:
        rng = self._world.rng
        if self._is_dead and not self._is_pipe_open:
            raise BrokenPipeError
        if rng.random() < 0.05:
            raise BlockingIOError
        length = min(len(content), 1 + int(rng.random() * 1.5 * len(content)))
        self._lists.extend(self._frames.read(bytes(content[:length])))
        self._world.loop.call_later(0, self._go_on)
        return length

    def receive(self) -> bytes:
        if self._answers:
            # A read may end within a message.
            length = 1 + int(self._world.rng.random() * 1.5 * len(self._answers))
            received = bytes(self._answers[:length])
            del self._answers[:length]
            return received
        if self._is_pipe_open:
            raise BlockingIOError
        return b""

    def wait(self, seconds: float, *, for_room: bool = False) -> bool:
        if not (for_room or self._answers or not self._is_pipe_open):
            self._waiting = self._world.loop.current
            self._world.loop.wait(seconds)
            self._waiting = None
        return bool(for_room or self._answers or not self._is_pipe_open)

    def close_pipe(self) -> None:
        self._is_pipe_open = False

    # The process.

    def _begin(self) -> None:
        if not self._dies(0.2):
            self._answer(framed(READY))
            self._go_on()

    def _answer(self, message: bytes) -> None:
        self._answers += message
        if self._waiting is not None:
            self._world.loop.wake(self._waiting)

    def _dies(self, share: float) -> bool:
        """Draw whether it dies here; ``share`` is how much of the chance falls to this step."""
        if not self._is_dead and self._world.rng.random() < self._world.chances.deaths * share:
            self._world.events.append((self._world.loop.now_ms, "process died", self._machine.member.name))
            self._die()
        return self._is_dead

    def _die(self, exit_code: int = _KILLED) -> None:
        if self._is_dead:
            return
        rng = self._world.rng
        self._is_dead = True
        self.exit_code = exit_code
        self._gone_at_ms = self._world.loop.now_ms + int(rng.random() * 100)
        self._is_pipe_open = rng.random() < 0.2
        if self._waiting is not None:
            self._world.loop.wake(self._waiting)

    def _go_on(self) -> None:
        if self._is_dead or self._is_busy or not self._lists or not self._machine.member.is_alive:
            return
        content = self._lists.pop(0)
        if content == END:
            self._die(0)
            return
        self._is_busy = True
        rng, books = self._world.rng, self._machine.books
        _, numbers = pickle.loads(content[LIST_LENGTH.size :])  # noqa: S301 - written by the pool, in this very process
        self._proceed(self._side.steps(map(books.numbered, numbers), lambda: rng.random() < 0.3), None)

    def _proceed(self, steps: Any, error: BaseException | None) -> None:
        while not self._dies(0.2):
            try:
                step, given = steps.send(error)
            except StopIteration:
                self._is_busy = False
                self._go_on()
                return
            error = None
            if self._dies(0.2):
                if step is Step.SEND:
                    message = framed(given)
                    self._answer(message[: int(self._world.rng.random() * len(message))])
                return
            if step is Step.STATE:
                place, state = given
                self.states[place] = state
            elif step is Step.SEND:
                self._answer(framed(given))
            else:
                self._run(steps, given)
                return

    def _run(self, steps: Any, call: Call) -> None:
        member, books = self._machine.member, self._machine.books

        def ended(error: BaseException | None) -> None:
            if self._is_dead or not member.is_alive:
                return
            if error is None:
                books.returned(call)
            self._proceed(steps, error)

        books.begin(call)
        self._world.handlers.start(member, call.records, ended)
        self._world.loop.call_later(int(self._world.rng.random() * 200), self._die_late)

    def _die_late(self) -> None:
        self._dies(0.5)
