"""How long a group is behind: the age of the first record it has not read, and when it will have caught up.

An age is either known, because the record was read, or it is a lower bound, and is called one. Nothing is interpolated
between records whose times are known: producers set the times, so they may fall with rising offsets, and a record
between two of ten seconds ago may be an hour old.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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

    >>> seconds_to_catch_up([Sample(0, 0, 100), Sample(10_000, 60, 120)])
    15.0
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
    if seconds <= 0:
        return None
    gained = (last.committed - first.committed) - (last.log_end - first.log_end)
    return behind / (gained / seconds) if gained > 0 else math.inf
