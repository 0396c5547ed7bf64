"""An asyncio loop in virtual time: sleeping handlers cost nothing, and the order of everything comes from the seed.

``advance`` runs what is ready at a moment and returns when the loop has nothing left to do before its next timer. A
handler that waits for something outside (a thread, a socket) is waited for in real time, up to a limit.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeVarTuple

_Arguments = TypeVarTuple("_Arguments")
# A handler in a test that waits this long in real time is stuck.
REAL_WAIT_S = 10.0
# A handler may catch its cancellation and go on, but not for ever.
_CANCELLATIONS = 10


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual_now = 0.0
        self._moments: list[float] = []
        self._made_calls = 0
        super().__init__()

    def time(self) -> float:
        return self._virtual_now

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        heappush(self._moments, when)
        return super().call_at(when, callback, *args, context=context)

    def call_soon(
        self,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        self._made_calls += 1
        return super().call_soon(callback, *args, context=context)

    def advance(self, now: float) -> None:
        """Go to ``now`` and run everything that is ready by then."""
        self._virtual_now = max(self._virtual_now, now)
        while True:
            before = self._made_calls
            self._run_once_now()
            # One call is the stop of the round itself.
            if self._made_calls <= before + 1:
                return

    def next_moment(self) -> float | None:
        """When the next timer is due, if there is one."""
        while self._moments and self._moments[0] <= self._virtual_now:
            heappop(self._moments)
        return self._moments[0] if self._moments else None

    def wait_outside(self, is_over: Callable[[], bool]) -> bool:
        """Wait in real time for threads and sockets until ``is_over``; False when that takes too long."""
        deadline = time.monotonic() + REAL_WAIT_S
        while not is_over():
            if time.monotonic() > deadline:
                return False
            self.advance(self._virtual_now)
            time.sleep(0.0005)
        return True

    def finish(self) -> None:
        """Cancel what is left and close."""
        for _ in range(_CANCELLATIONS):
            left = asyncio.all_tasks(self)
            if not left:
                break
            for task in left:
                task.cancel()
            self.advance(self._virtual_now)
        self.run_until_complete(self.shutdown_asyncgens())
        self.close()

    def _run_once_now(self) -> None:
        self.call_soon(self.stop)
        self.run_forever()
