"""Finding out when an offset was written by asking the broker the other way round: which offset was first at a time.

Kafka answers that question cheaply and for many partitions in one request, so the age of the first unread record is
found by narrowing, without reading a record: first further and further back until an answer lies at or below the
offset, then by halves until the error is small against the age. The rounds are bounded; what is left open is stated as
the error. ``TimeProbe`` does that for one offset, ``ages_at`` for many offsets of many logs at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Protocol, TypeVar

from seamark.rules.time_lag import CAUGHT_UP, Anchor, TimeLag, time_lag

Log = TypeVar("Log", bound=Hashable)

# An age is known well enough within a second, or within this share of itself.
_CLOSE_MS = 1000
_CLOSE_SHARE = 0.02
_MAX_ASKED = 24
_FIRST_STEP_MS = 4000
_WIDEN = 8
# Offsets of one log that are asked about, each of which takes some requests.
_MOST_PLACES = 8


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


class FirstRecord(Protocol):
    """The first record at or after a time; offset -1 if there is none."""

    @property
    def offset(self) -> int: ...

    @property
    def timestamp_ms(self) -> int: ...


def ages_at(
    places: Mapping[Log, tuple[Collection[int], int]],
    now_ms: int,
    ask: Callable[[Mapping[Log, int]], Mapping[Log, FirstRecord]],
) -> dict[Log, dict[int, TimeLag]]:
    """The time lag at some positions of each log, with a bounded number of questions.

    ``places`` has the positions and the end of each log. ``ask`` is given one time per log, and leaves out those that
    do not answer. Of many positions of a log a few are asked about; between those the others are estimated, and their
    error says so. A log that never answered is left out.

    >>> written_at = [900_000 + 10_000 * offset for offset in range(10)]
    >>> def ask(times):
    ...     at = next((offset for offset, when in enumerate(written_at) if when >= times["log"]), -1)
    ...     return {"log": Anchor(at, written_at[at] if at >= 0 else -1)}
    >>> ages_at({"log": ([7, 10], 10)}, 1_000_000, ask)["log"][7]
    TimeLag(seconds=30.0, error=0.0, method='read')
    """
    chosen = {log: _spread(sorted(set(positions))) for log, (positions, _) in places.items()}
    known: dict[Log, dict[int, TimeLag]] = {log: {} for log in places}
    for turn in range(_MOST_PLACES):
        probes = {
            log: TimeProbe(some[turn], places[log][1], now_ms) for log, some in chosen.items() if turn < len(some)
        }
        for log, probe in _narrowed(probes, ask).items():
            known[log][chosen[log][turn]] = probe.result()
    return {
        log: {
            position: known[log].get(position) or age_between(position, log_end, now_ms, known[log])
            for position in positions
        }
        for log, (positions, log_end) in places.items()
        if known[log]
    }


def _narrowed(
    probes: Mapping[Log, TimeProbe], ask: Callable[[Mapping[Log, int]], Mapping[Log, FirstRecord]]
) -> dict[Log, TimeProbe]:
    """The probes when there is nothing left to ask, without those whose log stopped answering."""
    left = dict(probes)
    while asked := {log: at for log, probe in left.items() if (at := probe.next_ask()) is not None}:
        found = ask(asked)
        for log, at in asked.items():
            if log in found:
                left[log].answered(at, found[log].offset, found[log].timestamp_ms)
            else:
                del left[log]
    return left


def _spread(positions: Sequence[int]) -> list[int]:
    """A few of many, with the first and the last."""
    if len(positions) <= _MOST_PLACES:
        return list(positions)
    return [positions[turn * (len(positions) - 1) // (_MOST_PLACES - 1)] for turn in range(_MOST_PLACES)]


def age_between(position: int, log_end: int, now_ms: int, known: Mapping[int, TimeLag]) -> TimeLag:
    """The time lag at a position, from those at others of the same log; their own errors are added to its error.

    >>> age_between(50, 200, 100_000, {0: TimeLag(60.0, 1.0, "interpolated"), 100: TimeLag(40.0, 0.0, "read")})
    TimeLag(seconds=50.0, error=11.0, method='interpolated')
    """
    exact = {place: age for place, age in known.items() if math.isfinite(age.error) and place < log_end}
    anchors = [Anchor(place, round(now_ms - age.seconds * 1000)) for place, age in exact.items()]
    found = time_lag(position, log_end, now_ms, anchors)
    below = max((place for place in exact if place <= position), default=None)
    above = min((place for place in exact if place > position), default=None)
    slack = max((exact[place].error for place in (below, above) if place is not None), default=0.0)
    return TimeLag(found.seconds, found.error + slack, found.method)
