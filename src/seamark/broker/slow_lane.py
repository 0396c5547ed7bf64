"""Work on requests that may be too long for one turn of the event loop: bounded per turn, and fair among requests.

Whoever is about to do such work asks ``may_spend`` with what it will cost, in units of about a microsecond. A turn has
room for ``TURN`` of them, whoever spends them. What finds no room any more is a generator that yields and waits in the
lane; each turn of the loop lets the lane go on for as much again. A generator yields ``NEXT`` where it holds nothing,
and goes to the end of the line; with ``HOLDING`` it goes on first, so that only one unfolded batch is in memory. It
yields a ``Reading`` to have that done beside the loop; it goes on when it is done, and the lane waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any

from seamark.broker.reading_thread import Reading, ReadingThread
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.broker")

# Units of one turn: a few milliseconds.
TURN = 10_000
# And the time after which no more of it is begun, whatever it was thought to cost.
TURN_SECONDS = 0.004


class Pause(Enum):
    NEXT = "next"
    HOLDING = "holding"


Wait = Pause | Reading[Any]
Steps = Generator[Wait]


class SlowLane:
    """Owned by the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: ReadingThread) -> None:
        self._loop = loop
        self._thread = thread
        self._waiting: deque[tuple[Steps, Callable[[], None]]] = deque()
        self._spent = 0
        self._turn_ends = 0.0
        self._is_turn_planned = False
        # Whether the first one waits for the thread.
        self._is_reading = False

    def __len__(self) -> int:
        return len(self._waiting)

    def may_spend(self, units: int) -> bool:
        """Take note of work that is done at once, or say that this turn has no room for it.

        Work that is larger than a whole turn has one for itself.
        """
        if self._spent and (self._spent + units > TURN or time.monotonic() >= self._turn_ends):
            return False
        self.spend(units)
        return True

    def spend(self, units: int) -> None:
        """Take note of work that goes on until its next pause."""
        if not self._spent:
            self._turn_ends = time.monotonic() + TURN_SECONDS
        self._spent += units
        self._plan_turn()

    def add(self, steps: Steps, failed: Callable[[], None]) -> None:
        """Let the generator run in the turns to come; ``failed`` is called if it raises."""
        self._waiting.append((steps, failed))
        self._plan_turn()

    def _wait_for(self, reading: Reading[Any]) -> None:
        self._is_reading = True
        reading.done = self._read
        self._thread.begin(reading, first=True)

    def _read(self) -> None:
        self._is_reading = False
        self._plan_turn()

    def _plan_turn(self) -> None:
        if not self._is_turn_planned:
            self._is_turn_planned = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_planned = False
        self._spent = 0
        waiting = self._waiting
        for _ in range(len(waiting)):
            if self._is_reading or (self._spent and (self._spent >= TURN or time.monotonic() >= self._turn_ends)):
                break
            steps, failed = waiting.popleft()
            try:
                pause = next(steps, None)
            except Exception:  # noqa: BLE001 - the edge where a bug becomes an answer, as in dispatch
                _log.exception("a request failed in the slow lane")
                failed()
                continue
            if pause is Pause.NEXT:
                waiting.append((steps, failed))
            elif pause is not None:
                waiting.appendleft((steps, failed))
                if isinstance(pause, Reading):
                    self._wait_for(pause)
        if waiting and not self._is_reading:
            self._plan_turn()

    def stop(self) -> None:
        """Drop what waits: nobody is answered any more."""
        for steps, _ in self._waiting:
            steps.close()
        self._waiting.clear()
