"""How long a group is behind: the age of the first record it has not read, and when it will have caught up.

Kafka cannot say when an offset was written. It is estimated from anchors, offsets whose record's time is known, by
drawing a straight line between the two around it; the answer carries its method and an error that the true value does
not exceed as long as record times do not fall with rising offsets. With nothing known below the offset only a lower
bound can be given, and it is called one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

Method = Literal["caught up", "read", "interpolated", "at least"]


class Anchor(NamedTuple):
    """The record at ``offset`` has this time; or, of a log's end: the next record had not been written at this time."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TimeLag:
    """``seconds`` behind, wrong by at most ``error`` (infinite for a lower bound)."""

    seconds: float
    error: float
    method: Method


CAUGHT_UP = TimeLag(0.0, 0.0, "caught up")


def time_lag(position: int, log_end: int, now_ms: int, anchors: Iterable[Anchor]) -> TimeLag:
    """The age of the record at ``position``.

    >>> time_lag(150, 200, 20_000, [Anchor(100, 0), Anchor(200, 10_000)])
    TimeLag(seconds=15.0, error=5.0, method='interpolated')
    >>> time_lag(100, 200, 20_000, [Anchor(100, 0)]).seconds
    20.0
    >>> time_lag(200, 200, 20_000, [])
    TimeLag(seconds=0.0, error=0.0, method='caught up')
    """
    if position >= log_end:
        return CAUGHT_UP
    # What is to be written next has no time yet, and it will not be earlier than now.
    known = _rising([*anchors, Anchor(log_end, now_ms)], now_ms)
    above = bisect_right(known, position, key=lambda anchor: anchor.offset)
    below = above - 1
    if below >= 0 and known[below].offset == position:
        return TimeLag((now_ms - known[below].timestamp_ms) / 1000, 0.0, "read")
    if below < 0:
        return TimeLag((now_ms - known[above].timestamp_ms) / 1000, math.inf, "at least")
    low, high = known[below], known[above]
    share = (position - low.offset) / (high.offset - low.offset)
    at_ms = low.timestamp_ms + share * (high.timestamp_ms - low.timestamp_ms)
    error_ms = max(at_ms - low.timestamp_ms, high.timestamp_ms - at_ms)
    return TimeLag((now_ms - at_ms) / 1000, error_ms / 1000, "interpolated")


def _rising(anchors: Iterable[Anchor], now_ms: int) -> list[Anchor]:
    """Sorted by offset, one per offset, with times that never fall and never lie ahead: clocks of producers differ."""
    rising: list[Anchor] = []
    latest = -(1 << 62)
    for offset, timestamp_ms in sorted(anchors):
        latest = max(latest, min(timestamp_ms, now_ms))
        # Of two looks at the same end of the log the earlier one says more.
        if not rising or rising[-1].offset != offset:
            rising.append(Anchor(offset, latest))
    return rising


# Less than this says nothing about a pace: one commit more or less decides.
_LEAST_SECONDS = 10.0


class Sample(NamedTuple):
    """A look at one partition; ``committed`` is None where there is none."""

    at_ms: int
    committed: int | None
    log_end: int


def seconds_to_catch_up(samples: Sequence[Sample]) -> float | None:
    """When the lag will be gone if both sides keep their pace; infinite if it grows or stands; None if unknown.

    A pace is known after ten seconds. A lag that is no more than what the group reads from one look to the next goes up
    and down with the moment of the look: nothing is told of it until it has changed by more than that.

    >>> seconds_to_catch_up([Sample(0, 0, 1000), Sample(10_000, 60, 1020)])
    240.0
    >>> seconds_to_catch_up([Sample(0, 980, 1000), Sample(65_000, 5990, 6000)])
    """
    known = [sample for sample in samples if sample.committed is not None]
    if not known:
        return None
    first, last = known[0], known[-1]
    assert first.committed is not None
    assert last.committed is not None
    behind = last.log_end - last.committed
    if behind <= 0:
        return 0.0
    seconds = (last.at_ms - first.at_ms) / 1000
    if seconds < _LEAST_SECONDS:
        return None
    gained = (last.committed - first.committed) - (last.log_end - first.log_end)
    offsets = [sample.committed or 0 for sample in known]
    step = max(abs(after - before) for before, after in pairwise(offsets))
    if behind <= step and abs(gained) <= step:
        return None
    return behind / (gained / seconds) if gained > 0 else math.inf
