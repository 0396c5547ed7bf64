"""The thread that uses a simulated consumer: runs an application's code and the client's calls in virtual time.

An application is a generator. Beside what the client's calls yield (work for the I/O thread, user code to be called)
it yields ``Work`` for time that passes in it. User code may itself be such a generator, wrapped in ``Nested``: a
listener that commits. One call waits at a time, as one thread does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, NamedTuple

from seamark.client.consumer.steps import OnIo, UserCode
from seamark.simulation.members.consumer_shell import Waiting
from seamark.simulation.world.process_clock import ProcessClock


class Work(NamedTuple):
    """The application is busy for so long."""

    duration_ms: int


Step = OnIo | UserCode | Work
Program = Generator[Step, Any, Any]


class Nested:
    """User code that makes calls of its own; only a ``Caller`` can wait for it."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __await__(self) -> Generator[Any, None, None]:
        raise AssertionError("only a Caller runs this")


class Caller:
    """``on_end`` is told what the program ended with: None, or the error it did not handle."""

    def __init__(self, clock: ProcessClock, on_end: Callable[[BaseException | None], None]) -> None:
        self._clock = clock
        self._on_end = on_end
        self._stack: list[Program] = []
        self._io: Coroutine[Any, Any, Any] | None = None
        # Counts waits, so that a wake-up for an earlier one is recognised.
        self._wait = 0
        self._is_waiting = False
        self._is_woken = False

    def begin(self, program: Program) -> None:
        self._stack.append(program)
        self._go_on(None, None)

    def look_again(self) -> None:
        """Something has changed: a call that waits for that goes on, in a moment."""
        if self._is_waiting and not self._is_woken:
            self._is_woken = True
            self._clock.call_later(0, self._wake, self._wait)

    def end(self) -> None:
        """The process is gone: nothing of it runs any more."""
        self._wait += 1
        self._is_waiting = False
        if self._io is not None:
            self._io.close()
            self._io = None
        while self._stack:
            _kill(self._stack.pop())

    def _wake(self, wait: int) -> None:
        if self._is_waiting and wait == self._wait:
            self._is_waiting = False
            self._step_io()

    def _step_io(self) -> None:
        outcome = self._run_io()
        if outcome is not None:
            self._go_on(*outcome)

    def _run_io(self) -> tuple[Any, BaseException | None] | None:
        """Go on with the work for the I/O thread; None if it waits, else what it ended with."""
        assert self._io is not None
        try:
            waiting = self._io.send(None)
        except StopIteration as end:
            self._io = None
            return end.value, None
        except Exception as error:  # noqa: BLE001 - handed to the call, which knows its errors
            self._io = None
            return None, error
        assert isinstance(waiting, Waiting)
        self._wait += 1
        self._is_waiting = True
        self._is_woken = False
        if waiting.until_ms is not None:
            self._clock.call_at(waiting.until_ms, self._wake, self._wait)
        return None

    def _go_on(self, value: Any, error: BaseException | None) -> None:
        while self._stack:
            program = self._stack[-1]
            try:
                step = program.send(value) if error is None else program.throw(error)
            except StopIteration as end:
                self._stack.pop()
                # What user code returns is of no interest; what the whole program returns neither.
                value, error = (None, None) if self._stack else (end.value, None)
                continue
            except Exception as raised:  # noqa: BLE001 - handed to whoever called it
                self._stack.pop()
                value, error = None, raised
                continue
            value, error = None, None
            match step:
                case OnIo(work):
                    self._io = work if isinstance(work, Coroutine) else _awaited(work)
                    outcome = self._run_io()
                    if outcome is None:
                        return
                    value, error = outcome
                case UserCode(function):
                    try:
                        answer = function()
                    except Exception as raised:  # noqa: BLE001 - handed to the call, which knows what to do
                        error = raised
                    else:
                        if isinstance(answer, Nested):
                            self._stack.append(answer.program)
                case Work(duration_ms):
                    self._clock.call_later(duration_ms, self._go_on, None, None)
                    return
        self._on_end(error)


class _Killed(BaseException):
    """The process is gone; no code of it is asked."""


def _kill(program: Program) -> None:
    """End a program wherever it stands; what it would still have done is not done."""
    while True:
        try:
            step = program.throw(_Killed())
        except (_Killed, StopIteration):
            return
        if isinstance(step, OnIo) and isinstance(step.work, Coroutine):
            step.work.close()


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work
