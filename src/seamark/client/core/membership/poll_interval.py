"""``max.poll.interval.ms``: how long the caller may stay away before its member leaves the group by itself (C26, C32).

``polled`` is called by every poll, before anything else (C3): a coordinator that cannot be reached does not make the
member leave for inactivity. It is the one value of the cores that the caller's thread may write while the I/O thread
reads it: a single store of an integer, by one writer.
"""

from __future__ import annotations


class PollInterval:
    __slots__ = ("_limit_ms", "last_poll_ms")

    def __init__(self, limit_ms: int) -> None:
        self._limit_ms = limit_ms
        self.last_poll_ms = 0

    def polled(self, now_ms: int) -> None:
        self.last_poll_ms = now_ms

    def is_exceeded(self, now_ms: int) -> bool:
        return now_ms >= self.until_ms

    @property
    def until_ms(self) -> int:
        return self.last_poll_ms + self._limit_ms
