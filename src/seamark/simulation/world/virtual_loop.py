"""An event loop for asyncio in virtual time: one per simulated process, all of them on one lifetime's calls.

What runs on it is ordinary asyncio code: tasks, futures and timeouts are asyncio's own, and only this loop below them
is another. Callbacks run in the order in which they were made ready. A connection is opened by ``connect``, so that no
socket is needed.

A process can stand still, as in a long garbage collection: what falls due meanwhile is done when it goes on, in order.
It can end at any moment: nothing of it runs again, and its coroutines are ended where they stand.

Context variables are not carried from callback to callback; nothing that is simulated has any.
"""

from __future__ import annotations

import asyncio
import math
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from seamark.simulation.world.event_loop import EventLoop

# When so many tasks or timers were made, those that have ended are forgotten.
_MANY_TASKS = 64
_MANY_TIMERS = 256
# Callbacks in a row, with those that they make ready; others have their turn then.
_LONGEST_ROUND = 50

Connect = Callable[
    ["VirtualLoop", Callable[[], asyncio.BaseProtocol], str],
    Awaitable[tuple[asyncio.Transport, asyncio.BaseProtocol]],
]


class Killed(BaseException):
    """The process has ended: raised in whatever of it was waiting."""


class Call:
    """A callback that will run, unless it is cancelled."""

    __slots__ = ("arguments", "callback", "due_ms")

    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...], due_ms: int) -> None:
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments
        self.due_ms = due_ms

    def cancel(self) -> None:
        self.callback = None
        self.arguments = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.due_ms / 1000

    def __repr__(self) -> str:
        return f"{getattr(self.callback, '__qualname__', self.callback)} at {self.due_ms} ms"


class VirtualLoop(asyncio.AbstractEventLoop):
    """``after_step`` is called after each callback that has run."""

    def __init__(
        self, calls: EventLoop, connect: Connect | None = None, after_step: Callable[[], None] | None = None
    ) -> None:
        self._calls = calls
        self._connect = connect
        self._after_step = after_step
        self._ready: deque[Call] = deque()
        # Whether the next round is on the lifetime's calls.
        self._is_scheduled = False
        self.is_alive = True
        self.paused_until_ms = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._timers: list[Call] = []
        self._most_timers = _MANY_TIMERS
        self._fault: BaseException | None = None

    # -- the process

    @property
    def now_ms(self) -> int:
        return self._calls.now_ms

    def pause(self, duration_ms: int) -> None:
        self.paused_until_ms = max(self.paused_until_ms, self._calls.now_ms + duration_ms)

    def enter(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Something happens to the process: now, or when it has done what is ready, or when it goes on."""
        if self.is_alive:
            self._run_soon(Call(callback, arguments, 0))

    def end(self) -> None:
        """The process is gone; must not be called by a coroutine of it."""
        if not self.is_alive:
            return
        self.is_alive = False
        self._ready.clear()
        tasks, self._tasks, self._timers = self._tasks, [], []
        previous = _get_running_loop()
        _set_running_loop(self)
        try:
            for task in tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _kill(task.get_coro())  # type: ignore[arg-type]
        finally:
            _set_running_loop(previous)

    @property
    def pending_tasks(self) -> list[asyncio.Task[Any]]:
        return [task for task in self._tasks if not task.done()]

    @property
    def armed_timers(self) -> list[Call]:
        """Timers that are still to come."""
        now_ms = self._calls.now_ms
        return [call for call in self._timers if call.callback is not None and call.due_ms > now_ms]

    # -- rounds

    def _run_soon(self, call: Call) -> None:
        self._ready.append(call)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._round()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._calls.call_later(0, self._round)

    def _round(self) -> None:
        if self._calls.now_ms < self.paused_until_ms:
            self._calls.call_at(self.paused_until_ms, self._round)
            return
        ready, after_step = self._ready, self._after_step
        previous = _get_running_loop()
        _set_running_loop(self)
        try:
            left = _LONGEST_ROUND
            while left and ready:
                left -= 1
                call = ready.popleft()
                if call.callback is not None:
                    call.callback(*call.arguments)
                    if after_step is not None:
                        after_step()
        finally:
            _set_running_loop(previous)
            self._is_scheduled = False
            self._calls.steps += _LONGEST_ROUND - left
        if self._fault is not None and self.is_alive:
            raise self._fault
        if ready:
            self._schedule()

    # -- what asyncio asks of a loop

    def time(self) -> float:
        return self._calls.now_ms / 1000

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: object = None,  # noqa: ARG002
    ) -> Call:
        call = Call(callback, args, 0)
        if self.is_alive:
            self._ready.append(call)
            if not self._is_scheduled:
                self._is_scheduled = True
                self._calls.call_later(0, self._round)
        return call

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: object = None
    ) -> Call:
        if delay <= 0:
            return self.call_soon(callback, *args, context=context)
        # Never at this very millisecond: whoever waits for a moment that is a little later must find that it is over.
        delay_ms = math.ceil(delay * 1000)
        call = Call(callback, args, self._calls.now_ms + delay_ms)
        if self.is_alive:
            self._calls.call_later(delay_ms, self._due, call)
            self._timers.append(call)
            if len(self._timers) > self._most_timers:
                self._timers = self.armed_timers
                self._most_timers = 2 * len(self._timers) + _MANY_TIMERS
        return call

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: object = None
    ) -> Call:
        return self.call_later(when - self._calls.now_ms / 1000, callback, *args, context=context)

    def _due(self, call: Call) -> None:
        if call.callback is not None and self.is_alive:
            self._run_soon(call)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: object = None) -> asyncio.Task[Any]:  # noqa: ARG002
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name="" if name is None else str(name))
        tasks = self._tasks
        tasks.append(task)
        if len(tasks) > _MANY_TASKS:
            self._tasks = self.pending_tasks
        return task

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,  # noqa: ARG002
        **options: Any,  # noqa: ARG002
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        assert self._connect is not None
        return await self._connect(self, protocol_factory, host)

    def is_running(self) -> bool:
        return self.is_alive

    def is_closed(self) -> bool:
        return not self.is_alive

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A task or a future has failed and nobody took notice."""
        if self.is_alive and self._fault is None:
            self._fault = context.get("exception") or RuntimeError(context["message"])


def _kill(coroutine: Coroutine[Any, Any, Any]) -> None:
    """End a coroutine wherever it stands; what it would still have waited for is not done."""
    while True:
        try:
            coroutine.throw(Killed())
        except (Killed, StopIteration):
            return
