"""Trouble that repeats itself, in the log: its first line, one a minute while it lasts, and one when it is over.

Commits that meet a rebalance fail at every interval, polls of a broker that is away fail several times a second: as
many lines would bury everything else. Another type of error is news, and told at once.
"""

from __future__ import annotations

from seamark.counts import number_text
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.parallel")

AGAIN_S = 60.0


class TroubleLog:
    """``over`` is the sentence for the end of it."""

    __slots__ = ("_count", "_kind", "_over", "_said_at")

    def __init__(self, over: str) -> None:
        self._over = over
        self._count = 0
        self._kind: type[BaseException] | None = None
        self._said_at = 0.0

    def failed(self, what: str, error: BaseException, now: float) -> None:
        self._count += 1
        if type(error) is self._kind and now - self._said_at < AGAIN_S:
            return
        self._kind = type(error)
        self._said_at = now
        in_a_row = f" ({number_text(self._count)} times in a row)" if self._count > 1 else ""
        _log.warning("%s: %s%s", what, error, in_a_row)

    def succeeded(self) -> None:
        count, self._count, self._kind = self._count, 0, None
        if count > 1:
            _log.warning("%s, after %s failures", self._over, number_text(count))
