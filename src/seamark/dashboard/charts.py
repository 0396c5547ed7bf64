"""Graphs as SVG, drawn on the server: no script, no style attribute, nothing but numbers in them.

A stretch in which nothing is known is a gap in the line, never a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from seamark.dashboard.markup import Markup, tag
from seamark.dashboard.wording import count_text
from seamark.monitor.history import Point

_SPARK = (96, 22)
_CHART = (720, 220)
# Room for the labels: left, top, right, bottom.
_LEFT, _TOP, _RIGHT, _BOTTOM = 64, 12, 12, 26
_TICKS = 4
_DAY_MS = 86_400_000


def sparkline(values: Sequence[int | None]) -> Markup:
    """A small graph beside a number; nothing if there is nothing to draw."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return Markup("")
    width, height = _SPARK
    most = max(known) or 1
    step = width / max(1, len(values) - 1)
    lines = [
        " ".join(f"{index * step:.0f},{height - 2 - (height - 4) * value / most:.1f}" for index, value in stretch)
        for stretch in _stretches(values)
    ]
    return tag(
        "svg", [tag("polyline", points=_drawable(line)) for line in lines], class_="spark",
        viewBox=f"0 0 {width} {height}", width=width, height=height, aria_hidden="true",
    )  # fmt: skip


def lag_chart(
    points: Sequence[Point], what: str, value_of: Callable[[Point], float | None], shown: Callable[[float], str]
) -> Markup:
    """Lag over time with axes; ``what`` says it to those who do not see it."""
    values = [value_of(point) for point in points]
    known = [value for value in values if value is not None]
    if not known:
        return tag("p", "No data for this period.", class_="quiet")
    width, height = _CHART
    most = _round_up(max(known))
    inner_width, inner_height = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    step = inner_width / max(1, len(values) - 1)

    def down(value: float) -> float:
        return _TOP + inner_height * (1 - value / most)

    drawn: list[Markup] = []
    for tick in range(_TICKS + 1):
        y = down(most * tick / _TICKS)
        drawn.append(tag("line", x1=_LEFT, x2=width - _RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid"))
        drawn.append(tag("text", shown(most * tick / _TICKS), x=_LEFT - 8, y=f"{y + 4:.1f}", class_="left"))
    drawn += _times(points, step, height)
    for stretch in _stretches(values):
        line = " ".join(f"{_LEFT + index * step:.1f},{down(value):.1f}" for index, value in stretch)
        first, last = stretch[0][0], stretch[-1][0]
        floor = f"{_TOP + inner_height}"
        area = f"{_LEFT + first * step:.1f},{floor} {line} {_LEFT + last * step:.1f},{floor}"
        drawn.append(tag("polygon", points=area, class_="area"))
        drawn.append(tag("polyline", points=_drawable(line), class_="line"))
    label = f"{what}: now {shown(known[-1])}, at most {shown(max(known))}"
    return tag("svg", drawn, class_="chart", viewBox=f"0 0 {width} {height}", role="img", aria_label=label)


def _times(points: Sequence[Point], step: float, height: int) -> Iterator[Markup]:
    is_long = points[-1].at_ms - points[0].at_ms > 1.5 * _DAY_MS
    for part in range(5):
        index = round(part * (len(points) - 1) / 4)
        at = datetime.fromtimestamp(points[index].at_ms / 1000, UTC)
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        x = f"{_LEFT + index * step:.1f}"
        yield tag("text", at.strftime("%b %d" if is_long else "%H:%M"), x=x, y=height - 8, text_anchor=anchor)


def _stretches(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Runs of what is known, each with its places."""
    run: list[tuple[int, float]] = []
    for index, value in enumerate(values):
        if value is None:
            if run:
                yield run
            run = []
        else:
            run.append((index, value))
    if run:
        yield run


def _drawable(line: str) -> str:
    """A single point is drawn as a line onto itself; round ends make a dot of it."""
    return line if " " in line else f"{line} {line}"


def _round_up(number: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, …: a scale that people can read.

    >>> [_round_up(number) for number in (0, 3, 7, 120, 99_000)]
    [1, 5, 10, 200, 100000]
    """
    size = 1
    while True:
        for factor in (1, 2, 5):
            if number <= factor * size:
                return factor * size
        size *= 10


def short_count(number: float) -> str:
    """Three digits and a unit.

    >>> short_count(1500), short_count(2_000_000), short_count(12), short_count(0.25)
    ('1.5k', '2M', '12', '0.25')
    """
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return count_text(round(number)) if float(number).is_integer() else f"{number:.3g}"
