"""Failures that are retried and last: said after a while, now and then from there on, and when they are over.

A pure core: it is given the time and gives the sentences. A failure that passes within ``AFTER_MS`` is nobody's
business: leaders move, coordinators load, and a retry finds them ready.
"""

from __future__ import annotations

from typing import Generic, TypeVar

AFTER_MS = 5_000
AGAIN_MS = 60_000

K = TypeVar("K")


class _Failing:
    __slots__ = ("said_ms", "since_ms")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.said_ms: int | None = None

    @property
    def due_ms(self) -> int:
        return self.since_ms + AFTER_MS if self.said_ms is None else self.said_ms + AGAIN_MS


class LastingFailures(Generic[K]):
    """By whatever fails: a partition, a node."""

    def __init__(self, fails: str = "could not be read", works: str = "can be read again") -> None:
        self._fails = fails
        self._works = works
        self._failing: dict[K, _Failing] = {}

    def failed(self, what: K, reason: object, now_ms: int, *, since_ms: int | None = None) -> str | None:
        """It failed, for the first time or once more; gives the line to log, if one is due.

        ``since_ms`` is when the first try began, where a try takes long.
        """
        failing = self._failing.setdefault(what, _Failing(now_ms if since_ms is None else since_ms))
        if now_ms < failing.due_ms:
            return None
        failing.said_ms = now_ms
        return f"{what} {self._fails} for {_seconds(now_ms - failing.since_ms)}, still retrying: {reason}"

    def succeeded(self, what: K, now_ms: int) -> str | None:
        """It works; gives the line to log, if it was said that it did not."""
        if not self._failing:
            return None
        failing = self._failing.pop(what, None)
        if failing is None or failing.said_ms is None:
            return None
        return f"{what} {self._works}, after {_seconds(now_ms - failing.since_ms)}"

    def due_ms(self, what: K) -> int | None:
        """When a line is due if it fails still; None while it works."""
        failing = self._failing.get(what)
        return None if failing is None else failing.due_ms

    def forget(self, what: K) -> None:
        """Nobody wants it any more."""
        self._failing.pop(what, None)


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms // 1000} s"
