"""Timers of groups and members: one heap of deadlines, with one timer of the broker's behind it.

A key has at most one deadline; setting it again replaces it, and what was replaced or cancelled stays in the heap
until it comes up or is swept out. ``run_due`` fires in the order of deadlines, those of one deadline in the order
they were set.

``SteadyMilliseconds`` is the time that a coordinator is told. It runs with the monotonic clock, so that setting the
machine's clock back stops no session from ending. It follows the wall clock forward, so that commits are not stamped
with a time that would be long ago after a restart; deadlines are moved by as much then, so that no session ends by it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Protocol

from seamark.coordinator.effects import TimerKey

_JUMP_MS = 1000
# Replaced and cancelled deadlines are swept out when there are this many of them and they are the majority.
_SWEEP_ABOVE = 1000
_MAX_STEPS = 2000
# What is fired in one turn of the event loop: the sessions of a large group may all end at once.
_MAX_FIRED = 4000


class Clock(Protocol):
    def monotonic(self) -> float: ...

    def now_ms(self) -> int: ...


class SteadyMilliseconds:
    """Milliseconds since 1970 that never go back; ``jumped`` is told by how much they went ahead of themselves."""

    __slots__ = ("_clock", "_compared_ms", "_jumped", "_offset_ms")

    def __init__(self, clock: Clock, jumped: Callable[[int], None]) -> None:
        self._clock = clock
        self._jumped = jumped
        self._offset_ms = clock.now_ms() - int(clock.monotonic() * 1000)
        # When the wall clock was last looked at; doing so each time would double the cost.
        self._compared_ms = 0

    def __call__(self) -> int:
        steady = int(self._clock.monotonic() * 1000) + self._offset_ms
        if steady - self._compared_ms >= _JUMP_MS:
            wall = self._clock.now_ms()
            # Asked again, and after the wall clock: a pause of the process in between must not look like a jump.
            ahead = wall - self._offset_ms - int(self._clock.monotonic() * 1000)
            if ahead > _JUMP_MS:
                self._offset_ms += ahead
                steady += ahead
                self._jumped(ahead)
            self._compared_ms = steady
        return steady


class GroupTimers:
    """``fire`` is called with the key and the time for each deadline that ``run_due`` finds passed."""

    def __init__(self, fire: Callable[[TimerKey, int], None]) -> None:
        self._fire = fire
        self._deadlines: dict[TimerKey, tuple[int, int]] = {}
        # By number what is armed. The heap has numbers only: what is cancelled stays in it, and keys may be long.
        self._keys: dict[int, TimerKey] = {}
        self._heap: list[tuple[int, int]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._deadlines)

    def arm(self, key: TimerKey, deadline_ms: int) -> None:
        self.cancel(key)
        number = next(self._numbers)
        self._deadlines[key] = (deadline_ms, number)
        self._keys[number] = key
        heapq.heappush(self._heap, (deadline_ms, number))
        if len(self._heap) > _SWEEP_ABOVE and len(self._heap) > 2 * len(self._deadlines):
            self._heap = list(self._deadlines.values())
            heapq.heapify(self._heap)

    def cancel(self, key: TimerKey) -> None:
        armed = self._deadlines.pop(key, None)
        if armed is not None:
            del self._keys[armed[1]]

    def move(self, by_ms: int) -> None:
        """Move all deadlines; their order stays."""
        self._deadlines = {key: (deadline + by_ms, number) for key, (deadline, number) in self._deadlines.items()}
        self._heap = list(self._deadlines.values())
        heapq.heapify(self._heap)

    def clear(self) -> None:
        self._deadlines.clear()
        self._keys.clear()
        self._heap.clear()

    @property
    def earliest_ms(self) -> int | None:
        """The next deadline, None when there is none."""
        heap = self._heap
        while heap:
            deadline_ms, number = heap[0]
            if number in self._keys:
                return deadline_ms
            heapq.heappop(heap)
        return None

    def run_due(self, now_ms: int, at_most: int = _MAX_FIRED) -> int:
        """Fire what is due, each at ``now_ms``, and return how many; what firing makes due again waits for the next
        call.
        """
        due: list[tuple[int, TimerKey]] = []
        while len(due) < at_most and (earliest_ms := self.earliest_ms) is not None and earliest_ms <= now_ms:
            _, number = heapq.heappop(self._heap)
            key = self._keys.pop(number)
            del self._deadlines[key]
            due.append((number, key))
        for number, key in due:
            # Firing another key may have set this one anew; firing it nevertheless would do no harm but no good either.
            armed = self._deadlines.get(key)
            if armed is None or armed[1] < number:
                self._fire(key, now_ms)
        return len(due)

    def run_through(self, from_ms: int, to_ms: int, settle: Callable[[], None]) -> None:
        """Let time pass in steps: each deadline fires at its own time, and so does what it sets in motion on the way.

        ``settle`` is called after each step, for what would happen before the next deadline. A move of the clock by
        years goes in steps only at first; what is left then is fired at its end. After ``_MAX_FIRED`` the rest is
        left to the next call.
        """
        now_ms = from_ms
        left = _MAX_FIRED
        for _ in range(_MAX_STEPS):
            earliest_ms = self.earliest_ms
            if earliest_ms is None or earliest_ms > to_ms:
                return
            now_ms = max(now_ms, earliest_ms)
            left -= self.run_due(now_ms, left)
            settle()
            if left <= 0:
                return
        self.run_due(to_ms, left)
        settle()
