"""Charts over time for the report: each series is at most so many points, made in Spark from however many rows.

A point of a lag is the last look within its stretch of time, null where nobody looked; a point of a count is how many
fell into the stretch. Only the chosen groups and partitions, and only rows within the span, are looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seamark.spark.lake.report.limits import Span
from seamark.spark.lake.report.totals import KEY, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Key = tuple[Any, ...]
Counts = list[int]
Values = list[int | None]


def count_series(rows: DataFrame, by: Sequence[str], span: Span, **sums: str) -> dict[Key, dict[str, Counts]]:
    """Per key, named sums of SQL expressions in each step of time."""
    from pyspark.sql import functions as F

    named = [F.sum(F.expr(expression)).alias(name) for name, expression in sums.items()]
    placed = _placed(rows, span).groupBy(*by, "point").agg(*named)
    return {
        key: {name: _filled(points, name, span, 0) for name in sums}
        for key, points in _points(placed, by, *sums).items()
    }  # fmt: skip


def lag_series(looks: DataFrame, span: Span) -> dict[Key, Values]:
    """The lag per partition: the last look of each step."""
    return {key: _filled(points, "lag", span, None) for key, points in _points(_last(looks, span), KEY, "lag").items()}


def lag_series_of_groups(looks: DataFrame, span: Span) -> dict[Key, Values]:
    """The lag per group: the last looks of each step, summed over its partitions."""
    from pyspark.sql import functions as F

    summed = _last(looks, span).groupBy("group", "point").agg(F.sum("lag").alias("lag"))
    return {key: _filled(points, "lag", span, None) for key, points in _points(summed, ["group"], "lag").items()}


def _last(looks: DataFrame, span: Span) -> DataFrame:
    from pyspark.sql import functions as F

    # A negative lag is of an offset beyond the log's end: that is a finding, and no chart of what is to be read.
    known = _placed(looks, span).where("lag >= 0")
    return known.groupBy(*KEY, "point").agg(F.max_by("lag", "at_ms").alias("lag"))


def count_sums(of_partition: dict[Key, dict[str, Counts]], span: Span) -> dict[Key, dict[str, Counts]]:
    """The counts per group, where all its partitions are known."""
    sums: dict[Key, dict[str, Counts]] = {}
    for (group, *_), counts in of_partition.items():
        into = sums.setdefault((group,), {name: [0] * span.points for name in counts})
        for name, series in counts.items():
            into[name] = [one + other for one, other in zip(into[name], series, strict=True)]
    return sums


def lag_sums(of_partition: dict[Key, Values], span: Span) -> dict[Key, Values]:
    """The lag per group, where all its partitions are known; null where none of them was looked at."""
    sums: dict[Key, Values] = {}
    for (group, *_), series in of_partition.items():
        into = sums.setdefault((group,), [None] * span.points)
        for point, lag in enumerate(series):
            if lag is not None:
                into[point] = (into[point] or 0) + lag
    return sums


def rebalances(tables: Tables, groups: DataFrame, most: int) -> dict[str, list[list[int | None]]]:
    """The last rebalances of each group: time, generation, members, joined, gone, duration, in the order of time."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    newest = Window.partitionBy("group").orderBy(F.desc("at_ms"), F.desc("offsets_offset"))
    known = tables.epochs.join(F.broadcast(groups), "group")
    kept = known.withColumn("place", F.row_number().over(newest)).where(F.col("place") <= most)
    names = ("at_ms", "generation", "members", "joined", "gone", "duration_ms")
    listed = kept.groupBy("group").agg(F.sort_array(F.collect_list(F.struct(*names))).alias("marks"))
    return {
        row["group"]: [[mark[name] for name in names] for mark in row["marks"]] for row in listed.toArrow().to_pylist()
    }


def _placed(rows: DataFrame, span: Span) -> DataFrame:
    from pyspark.sql import functions as F

    inside = rows.where(F.col("at_ms").between(span.from_ms, span.until_ms))
    return inside.withColumn("point", F.expr(f"int((at_ms - {span.from_ms}L) div {span.step_ms}L)"))


def _points(placed: DataFrame, by: Sequence[str], *names: str) -> dict[Key, list[dict[str, int]]]:
    from pyspark.sql import functions as F

    listed = placed.groupBy(*by).agg(F.collect_list(F.struct("point", *names)).alias("points")).toArrow()
    points_of: dict[Key, list[dict[str, int]]] = defaultdict(list)
    columns = [listed.column(name).to_pylist() for name in by]
    for key, points in zip(zip(*columns, strict=True), listed.column("points").to_pylist(), strict=True):
        points_of[key] += points
    return points_of


def _filled(points: list[dict[str, int]], name: str, span: Span, nothing: Any) -> list[Any]:
    series = [nothing] * span.points
    for point in points:
        series[min(point["point"], span.points - 1)] = nothing if point[name] is None else point[name]
    return series
