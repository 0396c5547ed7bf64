"""When positions are committed by themselves: at the end of a poll, once the interval has passed (I5, I14).

Never by a timer of its own: what poll has handed out counts as processed only when the caller comes back for more. A
commit that failed for a passing reason is due again after the retry backoff, and not only after a whole interval.
"""

from __future__ import annotations

_NEVER = 1 << 62


class AutoCommit:
    __slots__ = ("_interval_ms", "_retry_ms", "due_ms", "is_enabled")

    def __init__(self, *, is_enabled: bool, interval_ms: int, retry_ms: int, now_ms: int) -> None:
        self.is_enabled = is_enabled
        self._interval_ms = interval_ms
        self._retry_ms = retry_ms
        self.due_ms = now_ms + interval_ms if is_enabled else _NEVER

    def is_due(self, now_ms: int) -> bool:
        return now_ms >= self.due_ms

    def restart(self, now_ms: int) -> None:
        """A commit was started, or a new assignment was taken over: the interval begins anew."""
        if self.is_enabled:
            self.due_ms = now_ms + self._interval_ms

    def failed(self, now_ms: int) -> None:
        if self.is_enabled:
            self.due_ms = min(self.due_ms, now_ms + self._retry_ms)
