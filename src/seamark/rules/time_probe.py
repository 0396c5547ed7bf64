"""Finding out when an offset was written by asking the broker the other way round: which offset was first at a time.

Kafka answers that question cheaply and for many partitions in one request, so the age of the first unread record is
found by narrowing, without reading a record: first further and further back until an answer lies at or below the
offset, then by halves until the error is small against the age. The rounds are bounded; what is left open is stated as
the error.
"""

from __future__ import annotations

from seamark.rules.time_lag import CAUGHT_UP, Anchor, TimeLag, time_lag

# An age is known well enough within a second, or within this share of itself.
_CLOSE_MS = 1000
_CLOSE_SHARE = 0.02
_MAX_ASKED = 24
_FIRST_STEP_MS = 4000
_WIDEN = 8


class TimeProbe:
    """For one partition: ask the broker for the offset at ``next_ask()``, tell it to ``answered``, until that is None.

    >>> probe = TimeProbe(position=7, log_end=10, now_ms=1_000_000)
    >>> written_at = [900_000 + 10_000 * offset for offset in range(10)]
    >>> while (at := probe.next_ask()) is not None:
    ...     found = next((offset for offset, when in enumerate(written_at) if when >= at), -1)
    ...     probe.answered(at, found, written_at[found] if found >= 0 else -1)
    >>> probe.result()
    TimeLag(seconds=30.0, error=0.0, method='read')
    """

    __slots__ = ("_asked", "_high", "_log_end", "_low", "_now_ms", "_position")

    def __init__(self, position: int, log_end: int, now_ms: int) -> None:
        self._position = position
        self._log_end = log_end
        self._now_ms = now_ms
        self._asked = 0
        self._low: Anchor | None = None
        self._high = Anchor(log_end, now_ms)

    def next_ask(self) -> int | None:
        """The next time to ask about, in milliseconds; None when asking more would not pay."""
        if self._position >= self._log_end or self._asked >= _MAX_ASKED:
            return None
        low, high = self._low, self._high
        if low is None:
            age = self._now_ms - high.timestamp_ms
            # Time 0 is answered with the first record there is.
            return max(0, self._now_ms - max(_FIRST_STEP_MS, age * _WIDEN)) if high.timestamp_ms > 0 else None
        if low.offset == self._position:
            return None
        open_ms = high.timestamp_ms - low.timestamp_ms
        if open_ms <= max(_CLOSE_MS, _CLOSE_SHARE * (self._now_ms - low.timestamp_ms)):
            return None
        return low.timestamp_ms + open_ms // 2

    def answered(self, asked_ms: int, offset: int, timestamp_ms: int) -> None:
        """The first record at or after ``asked_ms`` is at ``offset``; -1 if there is none."""
        self._asked += 1
        if offset < 0 or offset > self._position:
            # Everything up to the position is older than what was asked for.
            self._high = Anchor(self._log_end if offset < 0 else offset, asked_ms)
        elif self._low is None or timestamp_ms >= self._low.timestamp_ms:
            self._low = Anchor(offset, timestamp_ms)
            if timestamp_ms >= self._high.timestamp_ms:
                # Record times that fall with rising offsets: there is nothing left to narrow.
                self._asked = _MAX_ASKED
        else:
            self._asked = _MAX_ASKED

    def result(self) -> TimeLag:
        if self._position >= self._log_end:
            return CAUGHT_UP
        anchors = [self._high] if self._low is None else [self._low, self._high]
        return time_lag(self._position, self._log_end, self._now_ms, anchors)
