"""Staying awake for a moment after an answer: a client that waits for it often asks again at once.

A process that sleeps is woken by the next request, which takes longer than handling it: tens of microseconds on a
virtual machine. So the event loop goes round without sleeping until nothing was asked for ``SECONDS``. Who is asked all
the time never sleeps anyway, and who is asked now and then pays this much per answer.

Only for a process that is nothing but a broker, and that leaves a processor to its clients.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from time import perf_counter

SECONDS = 0.0001


class Attention:
    """Owned by the event loop's thread."""

    __slots__ = ("_call_soon", "_clock", "_is_awake", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = perf_counter) -> None:
        self._call_soon = loop.call_soon
        self._clock = clock
        self._until = 0.0
        self._is_awake = False

    def answered(self) -> None:
        self._until = self._clock() + SECONDS
        if not self._is_awake:
            self._is_awake = True
            self._call_soon(self._go_round)

    def _go_round(self) -> None:
        # A loop that has something to call looks for what arrived, and does not sleep.
        if self._clock() < self._until:
            self._call_soon(self._go_round)
        else:
            self._is_awake = False


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
