"""Sums per partition and per group for the report, made in Spark: nothing here comes to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from seamark.rules.findings import SEVERITIES
from seamark.spark.lake.findings.epochs import epochs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from seamark.spark.lake.tables.lake import Lake

KEY = ("group", "topic", "partition")
_LATE = ("time_lag_ms", "time_lag_error_ms", "method")
# Offsets of the last commit's done-ahead map from {low} up to below {high}; none if the look saw another commit.
_AHEAD = (
    "aggregate(if(last_offset <=> committed, coalesce(last_ahead, array()), array()), 0L,"
    " (sum, each) -> sum + greatest(0L, least(each.end, {high}) - greatest(each.start, {low})))"
)
# What the lag hides, as seamark.rules.lag counts it; each may ask for those before it.
_LAG_PARTS = {
    "beyond": "greatest(0L, committed - log_end)",
    "lost": (
        "if(beyond = 0 and committed < log_start,"
        f" log_start - committed - {_AHEAD.format(low='committed', high='log_start')}, if(lag is null, null, 0L))"
    ),
    "unfinished": f"if(beyond = 0, lag - lost - {_AHEAD.format(low='committed', high='log_end')}, null)",
}


class Tables(NamedTuple):
    """The tables of a lake that a report is made from, with ``at_ms``: commits without tombstones, epochs counted."""

    commits: DataFrame
    epochs: DataFrame
    log_ends: DataFrame
    lag: DataFrame
    group_states: DataFrame
    findings: DataFrame
    rejects: DataFrame


def tables_of(spark: SparkSession, lake: Lake) -> Tables:
    from pyspark.sql import functions as F

    read = {name: lake.read(spark, name) for name in Tables._fields if name != "epochs"}
    read["epochs"] = epochs(lake.read(spark, "generations"), lake.read(spark, "modern_groups"))
    # A tombstone is no commit, and what no calendar holds is in no chart.
    written_ms = F.unix_millis(F.coalesce("commit_time", "append_time"))
    is_commit = ~F.coalesce("tombstone", F.lit(False)) & F.col("at_ms").isNotNull()
    read["commits"] = read["commits"].withColumn("at_ms", written_ms).where(is_commit)
    for name in ("log_ends", "lag", "group_states"):
        read[name] = read[name].withColumn("at_ms", F.unix_millis("time")).where("at_ms is not null")
    return Tables(**read)


def partition_totals(tables: Tables) -> DataFrame:
    """One row per group and partition: what its commits add up to, and how far behind it was at the last look.

    ``first_offset`` + ``read`` + ``moved`` = ``last_offset``: where the first commit that is known stands, what members
    went on by, what was set from outside, went back or had expired, and where the last commit stands. What was read
    before the first commit is not known. ``written`` is from the first to the last look at the log.
    """
    from pyspark.sql import functions as F

    in_order = F.coalesce("offsets_offset", "at_ms")
    committed = tables.commits.groupBy(*KEY).agg(
        F.count("*").alias("commits"),
        F.count_if(F.col("origin") == "outside").alias("outside"),
        F.sum(F.when(F.col("origin").eqNullSafe("outside"), 0).otherwise(F.greatest("delta", F.lit(0)))).alias("read"),
        F.max("at_ms").alias("last_commit_ms"),
        F.min_by("offset", in_order).alias("first_offset"),
        F.max_by("offset", in_order).alias("last_offset"),
        F.max_by("done_ahead", in_order).alias("last_ahead"),
    )
    moved = F.col("last_offset") - F.col("first_offset") - F.col("read")
    behind = tables.lag.groupBy(*KEY).agg(
        F.max_by(F.struct("committed", "log_start", "log_end", "lag", *_LATE), "at_ms").alias("last")
    )
    written = tables.log_ends.groupBy("topic", "partition").agg(
        (F.max_by("log_end", "at_ms") - F.min_by("log_end", "at_ms")).alias("written")
    )
    both = committed.join(behind.select(*KEY, "last.*"), list(KEY), "full_outer")
    known = both.join(written, ["topic", "partition"], "left")
    for name, expression in _LAG_PARTS.items():
        known = known.withColumn(name, F.expr(expression))
    return known.select(
        *KEY, F.coalesce("committed", "last_offset").alias("committed"), "log_end", "lag", "lost", "unfinished",
        "beyond", *_LATE, F.coalesce("commits", F.lit(0)).alias("commits"),
        F.coalesce("outside", F.lit(0)).alias("outside"), "first_offset", F.coalesce("read", F.lit(0)).alias("read"),
        moved.alias("moved"), "last_offset", "written", "last_commit_ms",
    )  # fmt: skip


def group_totals(tables: Tables, partitions: DataFrame) -> DataFrame:
    """One row per group that any table knows, with its ``rank``: 0 for the most urgent severity that was found."""
    from pyspark.sql import functions as F

    summed = partitions.groupBy("group").agg(
        F.count("*").alias("partitions"),
        *(F.sum(name).alias(name) for name in ("commits", "outside", "read", "lost", "unfinished", "beyond")),
        # A negative lag, of an offset beyond the log's end, would hide that of other partitions.
        F.sum(F.when(F.col("lag") >= 0, F.col("lag"))).alias("lag"),
        F.max("last_commit_ms").alias("last_commit_ms"),
        F.max_by(F.struct(*_LATE), F.coalesce("time_lag_ms", F.lit(-1))).alias("late"),
    )
    begun = tables.epochs.groupBy("group").agg(
        F.count("*").alias("rebalances"), F.max_by("members", "offsets_offset").alias("seen_members")
    )
    states = tables.group_states.groupBy("group").agg(
        F.max_by(F.struct("type", "state", "members"), "at_ms").alias("seen")
    )
    findings = tables.findings.groupBy("group").agg(
        *(F.count_if(F.col("severity") == severity).alias(severity) for severity in SEVERITIES)
    )
    joined = summed
    for other in (begun, states, findings):
        joined = joined.join(other, "group", "full_outer")
    rank = F.lit(len(SEVERITIES))
    for place, severity in reversed(list(enumerate(SEVERITIES))):
        rank = F.when(F.col(severity) > 0, place).otherwise(rank)
    counts = ("partitions", "commits", "outside", "read", "rebalances", *SEVERITIES)
    return joined.select(
        "group", F.col("seen.type").alias("type"), F.col("seen.state").alias("state"),
        F.coalesce("seen.members", "seen_members").alias("members"),
        *(F.coalesce(name, F.lit(0)).alias(name) for name in counts),
        "lag", "lost", "unfinished", "beyond", *(f"late.{name}" for name in _LATE), "last_commit_ms",
        rank.alias("rank"),
    ).where("group is not null")  # fmt: skip
