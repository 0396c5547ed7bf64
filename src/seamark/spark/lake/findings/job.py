"""The ``findings`` table: the rules of ``seamark.rules.findings`` over every group's history in a lake, by Spark.

Commits, deletions, generations and looks at the logs of a group meet in one task, in the order they were stored; only
counts come back to the driver. The table is made anew from the whole lake each time and published as one version, so
the same lake and parameters give the same rows, however often it runs. No rule goes across an incomplete stretch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from seamark.errors import UsageError
from seamark.rules.findings import Parameters
from seamark.spark.lake.findings.events import FOUND, SORTED_BY, events, findings_of_events, parameters_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from seamark.spark.lake.tables.lake import Lake

TABLE = "findings"


def find(spark: SparkSession, lake: Lake, parameters: Parameters | None = None) -> dict[str, int]:
    """Make the table of findings anew; gives how many there are of each kind."""
    from pyspark.sql import functions as F

    with lake.writing():
        commits, generations, modern_groups, log_ends = (
            lake.read(spark, name) for name in ("commits", "generations", "modern_groups", "log_ends")
        )
        rows = findings(commits, generations, modern_groups, log_ends, parameters)
        files = lake.write(rows, TABLE)
        lake.publish({TABLE: files}, replaced=[TABLE])
    counted = lake.read(spark, TABLE).groupBy("kind").agg(F.count("*").alias("count")).collect()
    return dict(sorted((row["kind"], row["count"]) for row in counted))


def findings(
    commits: DataFrame,
    generations: DataFrame,
    modern_groups: DataFrame,
    log_ends: DataFrame,
    parameters: Parameters | None = None,
) -> DataFrame:
    """The rows of the table, from those of four others."""
    from pyspark.sql import functions as F

    chosen = parameters or Parameters()

    def find_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return findings_of_events(batches, chosen)

    together = events(commits, generations, modern_groups, log_ends)
    together = together.repartition("group").sortWithinPartitions(*SORTED_BY)
    rows = together.select(*sorted(together.columns)).mapInArrow(find_in, FOUND)
    # The time of the last thing that the lake knows: a finding is as old as what it was made from.
    newest_ms = _newest_ms(commits, generations, log_ends)
    return rows.select(
        F.timestamp_millis(F.lit(newest_ms)).alias("found_time"),
        F.timestamp_millis("first_ms").alias("first_time"), F.timestamp_millis("last_ms").alias("last_time"),
        "kind", "group", "topic", "partition", "severity", "text", "evidence",
        F.lit(parameters_text(chosen)).alias("parameters"),
        F.expr("date_from_unix_date(int(first_ms div 86400000))").alias("day"),
    )  # fmt: skip


def _newest_ms(commits: DataFrame, generations: DataFrame, log_ends: DataFrame) -> int:
    from pyspark.sql import functions as F

    def newest(rows: DataFrame, column: str) -> DataFrame:
        return rows.agg(F.max(F.unix_millis(column)).alias("ms"))

    last = newest(commits, "append_time").union(newest(generations, "time")).union(newest(log_ends, "time"))
    return int(last.agg(F.max("ms")).collect()[0][0] or 0)


def parameters_from(wanted: Mapping[str, str]) -> Parameters:
    """The rules' parameters with some of them given as text; UsageError names those there are.

    >>> parameters_from({"stall_ms": "60000"}).stall_ms
    60000
    """
    usual = Parameters()
    known: dict[str, type[Any]] = {field.name: type(getattr(usual, field.name)) for field in fields(usual)}
    chosen: dict[str, Any] = {}
    for name, text in wanted.items():
        if name not in known:
            raise UsageError(f"unknown rule parameter {name!r}; known: {', '.join(known)}")
        try:
            value = known[name](text)
        except ValueError:
            raise UsageError(f"the parameter {name} must be a number, got {text!r}") from None
        if value <= 0:
            raise UsageError(f"the parameter {name} must be > 0, got {text}")
        chosen[name] = value
    return replace(usual, **chosen)
