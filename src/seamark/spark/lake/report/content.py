"""What a report says, as one JSON document: the same for the page and for programs.

Sums and charts are made in Spark; what comes to the driver is bounded by ``report_limits``, whatever the lake holds.
Charts are lists with one number per step of time (``from_ms`` + index * ``step_ms``), null where nothing is known.
Partitions are lists whose columns ``partition_columns`` names, rebalances likewise; topics are named by their place in
``topics``. ``totals`` count the whole lake, so ``groups_left_out`` and ``findings_left_out`` say what is not listed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seamark.rules.findings import SEVERITIES
from seamark.spark.lake.report.limits import MOST_FINDINGS, MOST_GROUPS, Detail, Span, detail_for, span_of
from seamark.spark.lake.report.series import (
    count_series,
    count_sums,
    lag_series,
    lag_series_of_groups,
    lag_sums,
    rebalances,
)
from seamark.spark.lake.report.totals import KEY, Tables, group_totals, partition_totals, tables_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from seamark.spark.lake.tables.lake import Lake

FORMAT = "seamark-report"
VERSION = 1
PARTITION_COLUMNS = (
    "topic", "partition", "committed", "log_end", "lag", "lost", "unfinished", "beyond", "time_lag_ms",
    "time_lag_error_ms", "method", "commits", "outside", "first_offset", "read", "moved", "last_offset", "written",
    "last_commit_ms", "lag_points",
    "commit_points",
)  # fmt: skip
REBALANCE_COLUMNS = ("at_ms", "generation", "members", "joined", "gone", "duration_ms")

# A chart's ends leave out this share of the commits if those lie far away from all the others.
_FAR = 0.01
# Of a group's numbers, those that the report gives as they are.
_GROUP_FIELDS = (
    "type", "state", "members", "partitions", "commits", "outside", "read", "rebalances", "lag", "lost", "unfinished",
    "beyond", "time_lag_ms", "time_lag_error_ms", "method", "last_commit_ms",
)  # fmt: skip


def content(
    spark: SparkSession, lake: Lake, *, now_ms: int | None = None, most_groups: int = MOST_GROUPS
) -> dict[str, Any]:
    """The report of a lake; ``now_ms`` is when it was made, the present by default."""
    tables = tables_of(spark, lake)
    partitions = partition_totals(tables).persist()
    try:
        groups = group_totals(tables, partitions).persist()
        try:
            report = _gathered(spark, lake, tables, partitions, groups, most_groups)
        finally:
            groups.unpersist()
    finally:
        partitions.unpersist()
    report["made_ms"] = round(time.time() * 1000) if now_ms is None else now_ms
    return report


def _gathered(
    spark: SparkSession, lake: Lake, tables: Tables, partitions: DataFrame, groups: DataFrame, most_groups: int
) -> dict[str, Any]:
    from pyspark.sql import functions as F

    ranked = groups.orderBy("rank", F.desc_nulls_last("lag"), F.desc("commits"), "group").limit(most_groups)
    chosen = ranked.toArrow().to_pylist()
    totals = _totals(lake, tables, groups, chosen, most_groups)
    detail = detail_for(len(chosen), min(totals["partitions"], sum(group["partitions"] for group in chosen)))
    span, look_ms = _span(tables, detail)
    listed: list[dict[str, Any]] = []
    topics: dict[str, int] = {}
    if chosen:
        names = spark.createDataFrame([(group["group"],) for group in chosen], "group string")
        listed = _groups(tables, partitions, names, chosen, detail, span, topics)
    shown = {group["group"]: place for place, group in enumerate(chosen)}
    findings = _findings(tables.findings, shown)
    return {
        "format": FORMAT,
        "version": VERSION,
        "cluster": lake.cluster,
        "lake_version": lake.version,
        "from_ms": span.from_ms,
        "until_ms": span.until_ms,
        "step_ms": span.step_ms,
        "points": span.points,
        "look_ms": look_ms,
        "totals": totals,
        "groups_left_out": totals["groups"] - len(listed),
        "findings_left_out": sum(totals["findings"].values()) - len(findings),
        "topics": list(topics),
        "partition_columns": PARTITION_COLUMNS,
        "rebalance_columns": REBALANCE_COLUMNS,
        "groups": listed,
        "findings": findings,
    }


def _totals(
    lake: Lake, tables: Tables, groups: DataFrame, chosen: Sequence[dict[str, Any]], most: int
) -> dict[str, Any]:
    """Counts over the whole lake; if all groups are listed, they need not be gone through again."""
    from pyspark.sql import functions as F

    names = ("partitions", "commits", "outside", "rebalances", "lag")
    if len(chosen) < most:
        known = [group["lag"] for group in chosen if group["lag"] is not None]
        counted = {name: sum(group[name] or 0 for group in chosen) for name in names}
        counted |= {"groups": len(chosen), "lag": sum(known) if known else None}
    else:
        row = groups.agg(F.count("*").alias("groups"), *(F.sum(name).alias(name) for name in names)).first()
        assert row is not None
        counted = {name: row[name] for name in ("groups", *names)}
    findings = tables.findings.groupBy("kind", "severity").count().collect()
    return {
        **counted,
        "rejects": lake.published.rows("rejects"),
        "findings": dict(sorted((row["kind"], row["count"]) for row in findings)),
        "severities": {
            severity: sum(row["count"] for row in findings if row["severity"] == severity) for severity in SEVERITIES
        },
    }  # fmt: skip


def _span(tables: Tables, detail: Detail) -> tuple[Span, int | None]:
    """What charts go over, and how far apart looks at the logs are on average: lines are drawn through such gaps."""
    from pyspark.sql import functions as F

    def bounds(rows: DataFrame, looks: Column) -> DataFrame:
        far = F.percentile_approx("at_ms", F.array(F.lit(_FAR), F.lit(1 - _FAR / 10)), 1000)
        return rows.agg(
            F.min("at_ms").alias("least"), far.alias("far"), F.max("at_ms").alias("most"), looks.alias("looks")
        )

    nothing = F.max(F.lit(0)).cast("long")
    seen = bounds(tables.lag, F.approx_count_distinct("at_ms"))
    tellers = bounds(tables.commits, nothing).union(seen).union(bounds(tables.epochs, nothing))
    known = [row for row in tellers.collect() if row["least"] is not None]
    if not known:
        return Span(0, 0, 1), None
    span = span_of(
        min(row["least"] for row in known), min(row["far"][0] for row in known), max(row["far"][1] for row in known),
        max(row["most"] for row in known), detail.points,
    )  # fmt: skip
    apart = [int((row["most"] - row["least"]) / (row["looks"] - 1)) for row in known if row["looks"] > 1]
    return span, apart[0] if apart else None


def _groups(
    tables: Tables, partitions: DataFrame, names: DataFrame, chosen: Sequence[dict[str, Any]], detail: Detail,
    span: Span, topics: dict[str, int],
) -> list[dict[str, Any]]:  # fmt: skip
    """The listed groups with their charts, in the order of ``chosen``; topics are numbered as they come up."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    names = F.broadcast(names)
    order = Window.partitionBy("group").orderBy(F.desc_nulls_last("lag"), F.desc("commits"), "topic", "partition")
    kept = partitions.join(names, "group").withColumn("place", F.row_number().over(order))
    kept = kept.where(F.col("place") <= detail.partitions).drop("place")
    rows = kept.toArrow().to_pylist()
    keys = names.sparkSession.createDataFrame(
        [tuple(row[name] for name in KEY) for row in rows], "group string, topic string, partition int"
    )
    is_read = "case when origin = 'outside' then 0 else greatest(delta, 0) end"
    counts = {"commits": "1", "read": is_read}
    of_partition = count_series(tables.commits.join(F.broadcast(keys), list(KEY)), KEY, span, **counts)
    looks = tables.lag.join(names, "group")
    lag_points = lag_series(looks.join(F.broadcast(keys), list(KEY)), span)
    if len(rows) == sum(group["partitions"] for group in chosen):
        of_group, group_lag = count_sums(of_partition, span), lag_sums(lag_points, span)
    else:
        of_group = count_series(tables.commits.join(names, "group"), ["group"], span, **counts)
        group_lag = lag_series_of_groups(looks, span)
    marks = rebalances(tables, names, detail.rebalances)
    shown: dict[str, list[list[Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["group"], row["topic"], row["partition"])):
        key = tuple(row[name] for name in KEY)
        row["topic"] = topics.setdefault(row["topic"], len(topics))
        row["lag_points"], row["commit_points"] = lag_points.get(key), of_partition.get(key, {}).get("commits")
        shown.setdefault(row["group"], []).append([row[name] for name in PARTITION_COLUMNS])
    return [
        {
            "name": group["group"],
            **{name: group[name] for name in _GROUP_FIELDS},
            "found": [group[name] for name in SEVERITIES],
            "lag_points": group_lag.get((group["group"],)),
            "commit_points": of_group.get((group["group"],), {}).get("commits"),
            "read_points": of_group.get((group["group"],), {}).get("read"),
            "rebalance_marks": marks.get(group["group"], []),
            "shown": shown.get(group["group"], []),
        }
        for group in chosen
    ]


def _findings(findings: DataFrame, shown: dict[str, int]) -> list[dict[str, Any]]:
    """The most urgent findings, the newest first within a severity; ``group`` is the group's place in the report."""
    from pyspark.sql import functions as F

    urgency = F.array_position(F.array(*(F.lit(severity) for severity in SEVERITIES)), F.col("severity"))
    newest = findings.orderBy(urgency, F.desc("first_time"), "group", "topic", "partition", "kind")
    rows = newest.select(
        "kind", "severity", "group", "topic", "partition", F.unix_millis("first_time").alias("first_ms"),
        F.unix_millis("last_time").alias("last_ms"), "text", "evidence",
    ).limit(MOST_FINDINGS)  # fmt: skip
    told = []
    for row in rows.toArrow().to_pylist():
        evidence = json.loads(row.pop("evidence") or "{}")
        told.append(
            {**row, "place": shown.get(row["group"]), "advice": evidence.pop("advice", ""), "evidence": evidence}
        )
    return told
