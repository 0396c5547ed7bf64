"""How old an unread record is at least, by asking the broker the other way round: which offset was first at a time.

Kafka answers that question for many partitions in one request and without reading rights. The answer for time t is the
lowest offset whose record is of t or later, so whatever the order of the times:

- no such record: every record is older than t.
- it lies beyond the position: the first unread record is that one, or one before it, and those are older than t. So it
  is not newer than the record in the answer.
- it is the position itself: the record's time is known.
- it lies before the position: this says nothing about the record at the position, whose time may be anything.

The search narrows the times around the newest record up to the position, first further and further back, then by
halves. Where times rise with offsets, that is the record at the position, and the bound is close to the truth; where
they do not, it is a lower bound all the same. The rounds are limited. ``TimeProbe`` asks for one offset, ``least_ages``
for many offsets of many logs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from seamark.rules.time_lag import CAUGHT_UP, TimeLag, age_of

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
    TimeLag(seconds=30.0, method='read')
    """

    __slots__ = ("_asked", "_exact_ms", "_high_ms", "_log_end", "_low_ms", "_newest_ms", "_now_ms", "_position")

    def __init__(self, position: int, log_end: int, now_ms: int) -> None:
        self._position = position
        self._log_end = log_end
        self._now_ms = now_ms
        self._asked = 0
        # The newest record up to the position is older than _high_ms, and not older than _low_ms.
        self._low_ms: int | None = None
        self._high_ms = now_ms
        # The first unread record is not newer than this; or it is of exactly this time.
        self._newest_ms = now_ms
        self._exact_ms: int | None = None

    def next_ask(self) -> int | None:
        """The next time to ask about, in milliseconds; None when asking more would not pay."""
        if self._position >= self._log_end or self._asked >= _MAX_ASKED or self._exact_ms is not None:
            return None
        if self._low_ms is None:
            age = self._now_ms - self._high_ms
            # Time 0 is answered with the first record there is.
            return max(0, self._now_ms - max(_FIRST_STEP_MS, age * _WIDEN)) if self._high_ms > 0 else None
        open_ms = self._high_ms - self._low_ms
        if open_ms <= max(_CLOSE_MS, _CLOSE_SHARE * (self._now_ms - self._low_ms)):
            return None
        return self._low_ms + open_ms // 2

    def answered(self, asked_ms: int, offset: int, timestamp_ms: int) -> None:
        """The first record at or after ``asked_ms`` is at ``offset``; -1 if there is none."""
        self._asked += 1
        if offset < 0:
            self._high_ms = min(self._high_ms, asked_ms)
            self._newest_ms = min(self._newest_ms, asked_ms)
        elif offset > self._position:
            self._high_ms = min(self._high_ms, asked_ms)
            self._newest_ms = min(self._newest_ms, timestamp_ms)
        elif offset == self._position:
            self._exact_ms = timestamp_ms
        else:
            self._low_ms = timestamp_ms if self._low_ms is None else max(self._low_ms, timestamp_ms)

    def result(self) -> TimeLag:
        if self._position >= self._log_end:
            return CAUGHT_UP
        if self._exact_ms is not None:
            return age_of(self._exact_ms, self._now_ms)
        return age_of(self._newest_ms, self._now_ms, "at least")


class FirstRecord(Protocol):
    """The first record at or after a time; offset -1 if there is none."""

    @property
    def offset(self) -> int: ...

    @property
    def timestamp_ms(self) -> int: ...


class Places(NamedTuple):
    """Positions in one log, and the log's end."""

    positions: Collection[int]
    log_end: int


def least_ages(
    places: Mapping[Log, Places],
    now_ms: int,
    ask: Callable[[Mapping[Log, int]], Mapping[Log, FirstRecord]],
) -> dict[Log, dict[int, TimeLag]]:
    """The time lag at some positions of each log, with a bounded number of questions.

    ``ask`` is given one time per log, and leaves out those that do not answer. Of many positions of a log a few are
    asked about; the others have the lower bound of those above them. A position of which nothing is known is left out.

    >>> written_at = [900_000 + 10_000 * offset for offset in range(10)]
    >>> class First(NamedTuple):
    ...     offset: int
    ...     timestamp_ms: int
    >>> def ask(times):
    ...     at = next((offset for offset, when in enumerate(written_at) if when >= times["log"]), -1)
    ...     return {"log": First(at, written_at[at] if at >= 0 else -1)}
    >>> least_ages({"log": Places([7, 10], 10)}, 1_000_000, ask)["log"][7]
    TimeLag(seconds=30.0, method='read')
    """
    chosen = {
        log: _spread(sorted({position for position in here.positions if position < here.log_end}))
        for log, here in places.items()
    }
    known: dict[Log, dict[int, TimeLag]] = {log: {} for log in places}
    for turn in range(_MOST_PLACES):
        probes = {
            log: TimeProbe(some[turn], places[log].log_end, now_ms) for log, some in chosen.items() if turn < len(some)
        }
        for log, probe in _narrowed(probes, ask).items():
            known[log][chosen[log][turn]] = probe.result()
    return {
        log: {
            position: age
            for position in here.positions
            if (age := CAUGHT_UP if position >= here.log_end else _from_known(position, known[log])) is not None
        }
        for log, here in places.items()
    }


def _narrowed(
    probes: Mapping[Log, TimeProbe], ask: Callable[[Mapping[Log, int]], Mapping[Log, FirstRecord]]
) -> dict[Log, TimeProbe]:
    """The probes when there is nothing left to ask, without those whose log stopped answering."""
    left = dict(probes)
    while asked := {log: at for log, probe in left.items() if (at := probe.next_ask()) is not None}:
        answers = ask(asked)
        for log, at in asked.items():
            if log in answers:
                left[log].answered(at, answers[log].offset, answers[log].timestamp_ms)
            else:
                del left[log]
    return left


def _spread(positions: Sequence[int]) -> list[int]:
    """A few of many, with the first and the last."""
    if len(positions) <= _MOST_PLACES:
        return list(positions)
    return [positions[turn * (len(positions) - 1) // (_MOST_PLACES - 1)] for turn in range(_MOST_PLACES)]


def _from_known(position: int, known: Mapping[int, TimeLag]) -> TimeLag | None:
    """The age at a position from those that were asked for: its own, or what those above it say of it.

    What the answers say of the first record at or beyond a position, they say of all records before that one too: none
    is newer than the bound.
    """
    if position in known:
        return known[position]
    above = [age.seconds for place, age in known.items() if place > position]
    return TimeLag(max(above), "at least") if above else None
