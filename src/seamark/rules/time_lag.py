"""How long a group is behind: the age of the first record it has not read, and when it will have caught up.

An age is either known, because the record was read, or it is a lower bound, and is called one. Nothing is interpolated
between records whose times are known: producers set the times, so they may fall with rising offsets, and a record
between two of ten seconds ago may be an hour old.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

Method = Literal["caught up", "read", "at least"]


@dataclass(frozen=True, slots=True)
class TimeLag:
    """``seconds`` behind, or at least so many: ``method`` says which."""

    seconds: float
    method: Method

    @property
    def is_exact(self) -> bool:
        return self.method != "at least"


CAUGHT_UP = TimeLag(0.0, "caught up")


def age_of(timestamp_ms: int, now_ms: int, method: Method = "read") -> TimeLag:
    """The age of a record of that time; one whose producer's clock runs ahead is not of the future.

    >>> age_of(5_000, 20_000), age_of(99_000, 20_000).seconds
    (TimeLag(seconds=15.0, method='read'), 0.0)
    """
    return TimeLag(max(0, now_ms - timestamp_ms) / 1000, method)


# Less than this says nothing about a pace: one commit more or less decides.
_LEAST_SECONDS = 10.0


class Sample(NamedTuple):
    """A look at one partition; ``committed`` is None where there is none, ``lost`` was deleted before it was read."""

    at_ms: int
    committed: int | None
    log_end: int
    log_start: int = 0
    lost: int = 0

    @property
    def to_read(self) -> int:
        """Offsets that are still there to be read."""
        return self.log_end - max(self.committed or 0, self.log_start)


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
    if last.committed > last.log_end:
        return None
    behind = last.to_read
    if behind == 0:
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
