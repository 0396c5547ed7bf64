"""A line of the log that clients can cause as often as they like: it is written now and then, with how often it was due.

A client must not be able to fill the disk with what the broker says about it.
"""

from __future__ import annotations

import logging
from typing import Protocol

SECONDS_BETWEEN = 60.0


class Clock(Protocol):
    def real_monotonic(self) -> float: ...


class RareLine:
    """One kind of line; the first is written at once, then at most one a minute."""

    __slots__ = ("_clock", "_left_out", "_level", "_log", "_next")

    def __init__(self, log: logging.Logger, clock: Clock, level: int = logging.WARNING) -> None:
        self._log = log
        self._clock = clock
        self._level = level
        self._next = float("-inf")
        self._left_out = 0

    def say(self, text: str, *arguments: object) -> None:
        now = self._clock.real_monotonic()
        if now < self._next:
            self._left_out += 1
            return
        self._next = now + SECONDS_BETWEEN
        left_out, self._left_out = self._left_out, 0
        if left_out:
            self._log.log(self._level, f"{text} (and %d times since the last such line)", *arguments, left_out)
        else:
            self._log.log(self._level, text, *arguments)
