"""The broker's time: the machine's clocks plus what tests have added, and everything that is to happen later.

``monotonic`` is for deadlines and never goes back; ``now_ms`` is what records and commits are stamped with.
``advance`` moves both by the same amount, so sessions, retention and expiration follow; whoever calls it also wakes
the timers. ``restore`` sets ``now_ms`` right again, as when a machine's clock is set back.

``LoopTimers`` keeps all deadlines in one heap with one timer of the event loop. They are on the broker's clock, so
moving that clock and calling ``wake`` makes due what should be due. Timers fire in the order of their deadlines, and
those of one deadline in the order they were set. A callback that raises is logged and stops nobody else.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Protocol

from seamark.readable_log import readable_logger

if TYPE_CHECKING:
    import asyncio

_log = readable_logger("seamark.broker")

# Cancelled timers stay in the heap until they are due; above this many they are swept out when they are the majority.
_SWEEP_ABOVE = 1000


class BrokerClock:
    """One for all nodes of a broker."""

    __slots__ = ("_wall_ahead", "ahead")

    def __init__(self) -> None:
        # Seconds that tests have added.
        self.ahead = 0.0
        self._wall_ahead = 0.0

    def monotonic(self) -> float:
        """Seconds on a scale of its own."""
        return time.monotonic() + self.ahead

    def real_monotonic(self) -> float:
        """Seconds on the machine's clock, for what concerns clients: they do not know of the time that tests add."""
        return time.monotonic()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int((time.time() + self._wall_ahead) * 1000)

    def advance(self, seconds: float) -> None:
        self.ahead += seconds
        self._wall_ahead += seconds

    def restore(self) -> None:
        """Stamp with the machine's time again; deadlines that were set keep their distance."""
        self._wall_ahead = 0.0


class Timer(Protocol):
    """``cancel`` is always safe, also after it fired."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """Where something is set to happen later, on the broker's clock; ``LoopTimers`` is one."""

    def call_after(self, seconds: float, callback: Callable[[], None]) -> Timer: ...


class Soon(Protocol):
    """An event loop, as far as something is to happen in its next turn."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...


class LoopTimer:
    """The timer of ``LoopTimers``."""

    __slots__ = ("_owner", "callback", "deadline")

    def __init__(self, owner: LoopTimers, deadline: float, callback: Callable[[], None]) -> None:
        self._owner = owner
        self.deadline = deadline
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._owner.forget_one()


class LoopTimers:
    """Owned by the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: BrokerClock) -> None:
        self._loop = loop
        self._clock = clock
        self._heap: list[tuple[float, int, LoopTimer]] = []
        self._numbers = count()
        self._cancelled = 0
        self._handle: asyncio.TimerHandle | None = None
        self._armed_for = 0.0
        self._is_firing = False

    def call_at(self, deadline: float, callback: Callable[[], None]) -> LoopTimer:
        """Call when ``clock.monotonic()`` has reached ``deadline``."""
        timer = LoopTimer(self, deadline, callback)
        heapq.heappush(self._heap, (deadline, next(self._numbers), timer))
        if not self._is_firing and (self._handle is None or deadline < self._armed_for):
            self._arm()
        return timer

    def call_after(self, seconds: float, callback: Callable[[], None]) -> LoopTimer:
        return self.call_at(self._clock.monotonic() + seconds, callback)

    def forget_one(self) -> None:
        self._cancelled += 1
        if self._cancelled > _SWEEP_ABOVE and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def wake(self) -> None:
        """Fire all that is due, also what became due by a move of the clock."""
        if self._is_firing:
            return
        self._is_firing = True
        try:
            # A timer that re-arms itself in the past must not keep the others waiting: only what is due now is done.
            now = self._clock.monotonic()
            due: list[LoopTimer] = []
            while self._heap and self._heap[0][0] <= now:
                timer = heapq.heappop(self._heap)[2]
                if timer.callback is None:
                    self._cancelled = max(0, self._cancelled - 1)
                else:
                    due.append(timer)
            for timer in due:
                callback, timer.callback = timer.callback, None
                # One that fired earlier in this row may have cancelled it.
                if callback is not None:
                    try:
                        callback()
                    except Exception:  # noqa: BLE001 - a timer's owner is not here to be told
                        _log.exception("a timer failed")
        finally:
            self._is_firing = False
        self._arm()

    def close(self) -> None:
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._heap:
            self._armed_for = self._heap[0][0]
            delay = max(0.0, self._armed_for - self._clock.monotonic())
            self._handle = self._loop.call_later(delay, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self.wake()
