"""Handler processes of one simulated member: the real rules of both sides of the pipe, and deaths between all steps.

A process takes the steps of ``ProcessSide``; it may die before each of them, within a message, or while its handler
runs. Its owner hears of answers and of the death a while later, reads what is in the pipe and concludes. What really
became of a call is kept beside it: nothing is reported done unless its handler returned, each call is reported once,
and only what no handler has seen runs in another process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from seamark.parallel.core.work import StartCall
from seamark.parallel.pools.process_calls import MOST_CALLS, Ending, OwnerSide, ProcessSide, Step
from seamark.parallel.pools.process_frames import FrameReader, framed
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.violations import InvariantViolated

_MOST_LIST = 8
_KILLED = -9


class Surroundings(NamedTuple):
    """What processes need of their member and its world."""

    loop: EventLoop
    rng: Random
    # The chance that a process dies in the course of a call, as it is now.
    death_chance: Callable[[], float]
    # Runs the handler of a call; what it is given is told the error or None, unless the member is gone.
    run: Callable[[StartCall, Callable[[BaseException | None], None]], None]
    # The handler has returned, which is a fact whether anybody hears of it or not.
    returned: Callable[[StartCall], None]
    report: Callable[[Ending], None]
    died: Callable[[], None]


class SimulatedProcesses:
    """``waiting`` is the queue that all processes take calls from; those not begun go back to its front."""

    def __init__(self, count: int, waiting: deque[StartCall], around: Surroundings) -> None:
        self._waiting = waiting
        self._around = around
        # By the identity of a call.
        self.entered: set[int] = set()
        self.returned: set[int] = set()
        self._unreported: set[int] = set()
        self._processes = [_Process(self, around) for _ in range(count)]

    def look(self) -> None:
        """Calls have come: those who are free take some."""
        for process in self._processes:
            process.take_some()

    def next_list(self, most: int) -> list[StartCall]:
        share = 1 + len(self._waiting) // len(self._processes)
        calls = [self._waiting.popleft() for _ in range(min(most, share, len(self._waiting)))]
        for call in calls:
            self.entered.discard(id(call))
            self.returned.discard(id(call))
            self._unreported.add(id(call))
        return calls

    def report(self, ending: Ending) -> None:
        call, error = ending
        self._settle(call)
        if error is None and id(call) not in self.returned:
            raise InvariantViolated(
                "a failed call is never reported as done", f"{call} was reported as done, but failed"
            )
        self._around.report(ending)

    def replace(self, process: _Process, not_begun: Sequence[StartCall]) -> None:
        self._around.died()
        for call in not_begun:
            self._settle(call)
            if id(call) in self.entered:
                raise InvariantViolated(
                    "only calls that were not begun run in another process", f"{call} was begun before"
                )
        self._waiting.extendleft(reversed(not_begun))
        self._processes[self._processes.index(process)] = _Process(self, self._around)
        self._around.loop.call_later(1 + int(self._around.rng.random() * 300), self.look)

    def _settle(self, call: StartCall) -> None:
        if id(call) not in self._unreported:
            raise InvariantViolated("each call is reported once", f"{call} was reported again")
        self._unreported.discard(id(call))

    def forget_nothing(self, held: int, told: int) -> None:
        if held != told:
            raise InvariantViolated("each call is reported once", f"{told} of {held} calls were accounted for")


class _Process:
    def __init__(self, pool: SimulatedProcesses, around: Surroundings) -> None:
        self._pool = pool
        self._around = around
        states = [0] * MOST_CALLS
        self._states = states
        self._side = ProcessSide()
        self._owner = OwnerSide(states)
        self._frames = FrameReader()
        self._pipe = bytearray()
        self._lists: deque[list[StartCall]] = deque()
        self._is_busy = False
        self._is_dead = False
        # Its owner knows.
        self._is_mourned = False

    # The owner.

    def take_some(self) -> None:
        """Give it the next list, also when the process is dead and nobody knows yet."""
        if self._is_mourned:
            return
        calls = self._pool.next_list(_MOST_LIST - len(self._owner.held))
        if calls:
            self._owner.give(calls)
            self._lists.append(calls)
            self._around.loop.call_later(0, self._go_on)

    def _listen(self) -> None:
        # A read may end within a message.
        length = len(self._pipe) if self._is_dead else int(self._around.rng.random() * 1.5 * len(self._pipe)) + 1
        self._hear(length)
        if self._pipe and not self._is_dead:
            self._listen_later()
        self.take_some()

    def _hear(self, length: int | None = None) -> None:
        received = bytes(self._pipe[:length])
        del self._pipe[:length]
        for answer in self._frames.read(received):
            for ending in self._owner.answered(answer):
                self._pool.report(ending)

    def _listen_later(self) -> None:
        self._around.loop.call_later(int(self._around.rng.random() ** 2 * 60), self._listen)

    def _mourn(self) -> None:
        self._is_mourned = True
        self._hear()
        held = len(self._owner.held)
        endings, not_begun = self._owner.process_gone(_KILLED)
        self._pool.forget_nothing(held, len(endings) + len(not_begun))
        for ending in endings:
            self._pool.report(ending)
        self._pool.replace(self, not_begun)

    # The process.

    def _dies(self, share: float) -> bool:
        """Draw whether it dies here; ``share`` is how much of the chance falls to this step."""
        if not self._is_dead and self._around.rng.random() < self._around.death_chance() * share:
            self._is_dead = True
            self._around.loop.call_later(int(self._around.rng.random() * 100), self._mourn)
        return self._is_dead

    def _go_on(self) -> None:
        if self._is_dead or self._is_busy or not self._lists:
            return
        self._is_busy = True
        rng = self._around.rng
        self._proceed(self._side.steps(self._lists.popleft(), lambda: rng.random() < 0.3), None)

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
                    self._pipe += message[: int(self._around.rng.random() * len(message))]
                return
            if step is Step.STATE:
                place, state = given
                self._states[place] = state
            elif step is Step.SEND:
                self._pipe += framed(given)
                self._listen_later()
            else:
                self._run(steps, given)
                return

    def _run(self, steps: Any, call: StartCall) -> None:
        self._pool.entered.add(id(call))

        def ended(error: BaseException | None) -> None:
            if self._is_dead:
                return
            if error is None:
                self._pool.returned.add(id(call))
                self._around.returned(call)
            self._proceed(steps, error)

        self._around.run(call, ended)
        self._around.loop.call_later(int(self._around.rng.random() * 200), self._die_late)

    def _die_late(self) -> None:
        self._dies(0.5)
