"""Lines of the log that clients can cause as often as they like: only some are written, and how many were left out.

A client must not be able to fill the disk with what the broker says about it.
"""

from __future__ import annotations

import logging
from typing import Protocol

SECONDS = 60.0


class Clock(Protocol):
    def real_monotonic(self) -> float: ...


class RareLine:
    """One kind of line, written once a minute at most."""

    __slots__ = ("_clock", "_left_out", "_log", "_next")

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        # When the next line may be written.
        self._next = float("-inf")
        self._left_out = 0

    def say(self, text: str, *arguments: object, level: int = logging.WARNING) -> None:
        if not self._log.isEnabledFor(level):
            return
        now = self._clock.real_monotonic()
        if now < self._next:
            self._left_out += 1
            return
        self._next = now + SECONDS
        left_out, self._left_out = self._left_out, 0
        if left_out:
            text += " (%d similar lines were suppressed)"
            arguments = (*arguments, left_out)
        self._log.log(level, text, *arguments)
