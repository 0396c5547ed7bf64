"""When a heartbeat is due, and when silence means that the coordinator is gone.

At most one heartbeat is outstanding. The next is due one interval after the last was sent, one retry backoff after one
failed. The session counts from the last answer: once it has passed without one, the coordinator has given the member up
or cannot be reached, and must be looked up again.
"""

from __future__ import annotations


class HeartbeatTiming:
    """The clockwork only: whether heartbeats run at all is the membership's decision."""

    __slots__ = (
        "_due_ms",
        "_interval_ms",
        "_retry_ms",
        "_session_ms",
        "_session_until_ms",
        "is_outstanding",
        "sent_ms",
    )

    def __init__(self, interval_ms: int, session_ms: int, retry_ms: int) -> None:
        self._interval_ms = interval_ms
        self._session_ms = session_ms
        self._retry_ms = retry_ms
        self._due_ms = 0
        self._session_until_ms = 0
        self.is_outstanding = False
        self.sent_ms = 0

    def start(self, now_ms: int) -> None:
        """Begin a session: the coordinator has just heard from us."""
        self.is_outstanding = False
        self._due_ms = now_ms + self._interval_ms
        self._session_until_ms = now_ms + self._session_ms

    def sent(self, now_ms: int) -> None:
        self.is_outstanding = True
        self.sent_ms = now_ms
        self._due_ms = now_ms + self._interval_ms

    def answered(self, now_ms: int) -> None:
        self.is_outstanding = False
        self._session_until_ms = now_ms + self._session_ms

    def failed(self, now_ms: int) -> None:
        self.is_outstanding = False
        self._due_ms = now_ms + self._retry_ms

    def restart_session(self, now_ms: int) -> None:
        """A coordinator was found anew: it gets a whole session to answer in."""
        self._session_until_ms = now_ms + self._session_ms

    def is_due(self, now_ms: int) -> bool:
        return not self.is_outstanding and now_ms >= self._due_ms

    def is_session_over(self, now_ms: int) -> bool:
        return now_ms >= self._session_until_ms

    @property
    def next_ms(self) -> int:
        """When there is something to do without an answer arriving."""
        return self._session_until_ms if self.is_outstanding else min(self._due_ms, self._session_until_ms)
