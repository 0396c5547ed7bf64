"""What a broker's process has of the machine, in virtual time: an event loop, clocks, turns, and a thread for syncs.

Everything that happens in a process goes through ``enter``: nothing runs once the process has ended, and a crash in the
middle of something ends it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import ceil
from typing import Any

from seamark.broker.clock import BrokerClock
from seamark.broker.log.storage import SyncOutcome
from seamark.broker.sharing.reading_thread import ReadingThread
from seamark.broker.sharing.turns import Turns
from seamark.simulation.world.event_loop import EventLoop
from seamark.storage import OpenFiles
from seamark.storage.aside import Aside

Enter = Callable[..., None]

# Clocks begin here, so that no step of them leads before the beginning of time.
_BEGINNING_MS = 1_000_000
# Between two milliseconds, so that rounding always finds the one that it is.
_WITHIN_MS = 0.25
# With each timer the clocks go on a little, so that its deadline has passed however sums are rounded.
_TIMER_MS = 1e-7
_LONGEST_WAIT_FOR_A_TURN_MS = 1000
_CALM_SYNC_MS = 4


class Timing:
    """What may change while processes come and go: the clock, the disk's delays, and how busy the loop is."""

    __slots__ = ("clock_error_ms", "delay_ms", "reorders", "turn_ms")

    def __init__(self) -> None:
        # What steps of the wall clock add up to.
        self.clock_error_ms = 0
        # How late the disk's acknowledgements may be, and whether they may overtake each other.
        self.delay_ms = 0
        self.reorders = False
        # What a call may have to wait for that is to come in the loop's next turn.
        self.turn_ms = 0


class Handle:
    """What is set to happen later."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class ProcessLoop:
    """The event loop of one process."""

    def __init__(self, loop: EventLoop, rng: random.Random, enter: Enter, timing: Timing) -> None:
        self._loop = loop
        self._rng = rng
        self._enter = enter
        self._timing = timing
        self._last_soon_ms = 0
        self._timers_run = 0

    def monotonic(self) -> float:
        return (self._loop.now_ms + _WITHIN_MS + self._timers_run * _TIMER_MS) / 1000

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        moment_ms = max(self._loop.now_ms, self._last_soon_ms)
        turn_ms = self._timing.turn_ms
        if turn_ms:
            moment_ms = max(moment_ms, self._loop.now_ms + int(self._rng.random() * turn_ms))
            self._last_soon_ms = moment_ms
        self._loop.call_at(moment_ms, self._enter, callback, *arguments)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Handle:
        handle = Handle(callback)
        self._loop.call_later(max(0, ceil(seconds * 1000 - _WITHIN_MS)), self._run, handle)
        return handle

    def _run(self, handle: Handle) -> None:
        if handle.call is not None:
            self._timers_run += 1
            self._enter(handle.call)

    def call_after_ms(self, delay_ms: int, callback: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_later(delay_ms, self._enter, callback, *arguments)


class VirtualClock(BrokerClock):
    """The clocks of one process."""

    __slots__ = ("_timing", "monotonic", "real_monotonic")

    def __init__(self, loop: ProcessLoop, timing: Timing) -> None:
        super().__init__()
        self._timing = timing
        # As attributes, since they are read several times for each request.
        self.monotonic = loop.monotonic  # type: ignore[method-assign]
        self.real_monotonic = loop.monotonic  # type: ignore[method-assign]

    def now_ms(self) -> int:
        return _BEGINNING_MS + int(self.monotonic() * 1000) + self._timing.clock_error_ms


class VirtualTurns(Turns):
    """Each step waits for its turn: others come first, and they may be many."""

    def __init__(self, loop: ProcessLoop, rng: random.Random) -> None:
        super().__init__(loop)  # type: ignore[arg-type]
        self._process_loop = loop
        self._rng = rng

    def stand_in_line(self, work: Any) -> None:
        delay_ms = int(self._rng.random() ** 3 * _LONGEST_WAIT_FOR_A_TURN_MS)
        self._process_loop.call_after_ms(delay_ms, self._go_on, work)


class NoThread(ReadingThread):
    """Work aside is done at once."""

    def begin(self, aside: Aside[Any], done: Callable[[], None]) -> None:
        aside.run()
        done()


class VirtualSyncs:
    """Implements ``seamark.broker.log.storage.Syncs``: a sync takes a while, and files may be given up under it."""

    def __init__(self, loop: ProcessLoop, rng: random.Random, open_files: OpenFiles, timing: Timing) -> None:
        self._loop = loop
        self._rng = rng
        self._open_files = open_files
        self._timing = timing
        self._under_way: Handle | None = None

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def begin(self, work: Callable[[], SyncOutcome], done: Callable[[Callable[[], SyncOutcome]], None]) -> None:
        self.lose_files()

        def run() -> None:
            self._under_way = None
            outcome = work()
            done(lambda: outcome)

        delay_ms = 1 + int(self._rng.random() * (self._timing.delay_ms or _CALM_SYNC_MS))
        self._under_way = self._loop.call_later(delay_ms / 1000, run)

    def lose_files(self) -> None:
        """Now and then files are given up that others would need: those of segments that are not synced too."""
        if self._rng.random() < 0.3:
            self._open_files.shrink_to(int(self._rng.random() * 2))

    async def finish(self) -> None:
        handle = self._under_way
        if handle is not None and handle.call is not None:
            run = handle.call
            handle.cancel()
            run()

    def stop(self) -> None:
        """There is no thread to end."""
