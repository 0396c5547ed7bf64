"""Turns changes at uneven times into a graph of even stretches: pure.

A value is in effect until the next change, but only while somebody looked (``runs``); a stretch shows the highest value
that was in effect within it, so that a short peak is seen at any width.
"""

from __future__ import annotations

from collections.abc import Sequence

Row = tuple[int, int | None, float | None]
Value = tuple[int | None, float | None]

NOTHING: Value = (None, None)


def filled(
    rows: Sequence[Row], runs: Sequence[tuple[int, int]], since_ms: int, step_ms: int, points: int
) -> list[Value]:
    """A value per stretch.

    >>> filled([(0, 5, None), (25, 9, None), (27, 1, None)], [(0, 35)], 0, 10, 5)
    [(5, None), (5, None), (9, None), (1, None), (None, None)]
    """
    values: list[Value] = []
    current: Value = NOTHING
    at = run = 0
    for index in range(points):
        start = since_ms + index * step_ms
        stop = start + step_ms
        while run < len(runs) and runs[run][1] < start:
            run += 1
        while at < len(rows) and rows[at][0] <= start:
            current = rows[at][1:]
            at += 1
        is_looked_at = run < len(runs) and runs[run][0] < stop
        highest = current
        while at < len(rows) and rows[at][0] < stop:
            current = rows[at][1:]
            highest = current if highest == NOTHING else _higher(highest, current)
            at += 1
        values.append(highest if is_looked_at else NOTHING)
    return values


def _higher(one: Value, other: Value) -> Value:
    lags = [lag for lag in (one[0], other[0]) if lag is not None]
    ages = [age for age in (one[1], other[1]) if age is not None]
    return max(lags, default=None), max(ages, default=None)
