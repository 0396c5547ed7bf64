"""Virtual time: a heap of calls, run in the order of their moments and, within one, in the order they were made.

Nothing here or above reads a real clock. The order depends on numbers only, never on hashes or addresses, so one seed
gives one run on any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from seamark.simulation.world.violations import InvariantViolated

# Many times more than any lifetime takes: something calls itself again and again without waiting.
_MOST_STEPS = 200_000

_Entry = tuple[int, int, Callable[..., None], tuple[Any, ...]]


class EventLoop:
    """Time in milliseconds, going from one call to the next.

    >>> loop = EventLoop()
    >>> seen = []
    >>> loop.call_later(20, seen.append, "b")
    >>> loop.call_later(10, seen.append, "a")
    >>> loop.run_until(15)
    >>> seen, loop.now_ms
    (['a'], 15)
    """

    __slots__ = ("_heap", "_most_steps", "_sequence", "now_ms", "steps")

    def __init__(self, most_steps: int = _MOST_STEPS) -> None:
        self._most_steps = most_steps
        self.now_ms = 0
        self.steps = 0
        self._heap: list[_Entry] = []
        self._sequence = 0

    def call_at(self, moment_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        """Make the call at the moment, or now if that is past."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (max(moment_ms, self.now_ms), sequence, call, arguments))

    def call_later(self, delay_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (self.now_ms + delay_ms, sequence, call, arguments))

    def next_ms(self) -> int:
        """When the next call is due; now if there is none."""
        return self._heap[0][0] if self._heap else self.now_ms

    def run_until(self, moment_ms: int) -> None:
        """Make every call that is due up to the moment, also those made on the way."""
        heap = self._heap
        while heap and heap[0][0] <= moment_ms:
            self.now_ms, _, call, arguments = heappop(heap)
            self.steps += 1
            call(*arguments)
            if self.steps > self._most_steps:
                raise InvariantViolated("time goes on", f"after {self.steps} calls it is {self.now_ms} ms")
        self.now_ms = max(self.now_ms, moment_ms)
