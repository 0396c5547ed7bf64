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
    """One kind of line, written up to ``at_most`` times a minute."""

    __slots__ = ("_at_most", "_clock", "_ends", "_left_out", "_log", "_written")

    def __init__(self, log: logging.Logger, clock: Clock, at_most: int = 1) -> None:
        self._log = log
        self._clock = clock
        self._at_most = at_most
        # Of the minute that runs: its end, and what was written and left out in it.
        self._ends = float("-inf")
        self._written = 0
        self._left_out = 0

    def say(self, text: str, *arguments: object, level: int = logging.WARNING) -> None:
        if not self._log.isEnabledFor(level):
            return
        now = self._clock.real_monotonic()
        if now >= self._ends:
            self._ends = now + SECONDS
            self._written = 0
        if self._written >= self._at_most:
            self._left_out += 1
            return
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        if left_out:
            text += " (%d lines like this one were left out before)"
            arguments = (*arguments, left_out)
        self._log.log(level, text, *arguments)
