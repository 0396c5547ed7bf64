"""One process of a simulated client: its own calls in virtual time, none of them while it stands still or is dead.

Everything that reaches a process goes through here. What comes during a pause is done when the pause is over, in the
order in which it came, as after a long garbage collection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seamark.simulation.world.event_loop import EventLoop


class ProcessClock:
    __slots__ = ("_loop", "is_alive", "paused_until_ms")

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self.is_alive = True
        self.paused_until_ms = 0

    @property
    def now_ms(self) -> int:
        return self._loop.now_ms

    def seconds(self) -> float:
        return self._loop.now_ms / 1000

    def pause(self, duration_ms: int) -> None:
        self.paused_until_ms = max(self.paused_until_ms, self._loop.now_ms + duration_ms)

    def end(self) -> None:
        self.is_alive = False

    def run(self, call: Callable[..., None], *arguments: Any) -> None:
        """Something happens to the process: do it now, or when the process goes on."""
        if not self.is_alive:
            return
        if self._loop.now_ms < self.paused_until_ms:
            self._loop.call_at(self.paused_until_ms, self.run, call, *arguments)
            return
        call(*arguments)

    def call_later(self, delay_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_later(delay_ms, self.run, call, *arguments)

    def call_at(self, moment_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_at(moment_ms, self.run, call, *arguments)
