"""How much a report holds: a bounded number of groups, partitions and points, whatever the lake holds.

The more groups there are, the coarser each one's charts: the file stays small enough to be mailed and opened. What was
left out is counted in the report, never silently dropped.
"""

from __future__ import annotations

from typing import NamedTuple

# Groups in the report, those with the most urgent findings and the largest lag first.
MOST_GROUPS = 10_000
MOST_FINDINGS = 4_000
# Numbers in all charts together: at about four characters each, ten megabytes.
_MOST_POINTS = 2_200_000


class Detail(NamedTuple):
    """How fine charts are: points over time, and partitions and rebalances that are shown of one group."""

    points: int
    partitions: int
    rebalances: int


_DETAILS = (
    Detail(144, 64, 200), Detail(96, 32, 100), Detail(72, 16, 60), Detail(60, 8, 30), Detail(48, 6, 20),
    Detail(40, 4, 12), Detail(32, 3, 8), Detail(24, 2, 6), Detail(16, 1, 4),
)  # fmt: skip


def detail_for(groups: int, partitions: int) -> Detail:
    """The finest detail that so many groups with so many partitions allow.

    >>> detail_for(10, 60), detail_for(5_000, 20_000)
    (Detail(points=144, partitions=64, rebalances=200), Detail(points=40, partitions=4, rebalances=12))
    """
    for detail in _DETAILS:
        shown = min(partitions, groups * detail.partitions)
        if groups * 3 * detail.points + shown * 2 * detail.points <= _MOST_POINTS:
            return detail
    return _DETAILS[-1]


class Span(NamedTuple):
    """The time that charts go over, in ``points`` steps."""

    from_ms: int
    until_ms: int
    points: int

    @property
    def step_ms(self) -> int:
        return max(1, -(-(self.until_ms - self.from_ms + 1) // self.points))


def span_of(least: int, low: int, high: int, most: int, points: int) -> Span:
    """The span from the first to the last time, or from ``low`` to ``high`` where single records lie far outside.

    A compacted topic keeps a dead group's last commit for as long as the offset lives; one such commit must not squeeze
    all the others into one point.

    >>> span_of(0, 10, 990, 1000, 10)
    Span(from_ms=0, until_ms=1000, points=10)
    >>> span_of(0, 900_000, 990_000, 1_000_000, 10)
    Span(from_ms=900000, until_ms=1000000, points=10)
    """
    width = max(1, high - low)
    return Span(
        low if low - least > width // 2 else least, high if most - high > width // 2 else most, points
    )  # fmt: skip
