"""Time travel: the committed offsets of groups at any time that a lake covers, and what changed between two times.

What held at a time is the last record that had been written by then, in the order of the offsets topic; clocks only
decide which records had been. A tombstone means no offset: expired, deleted by hand, or gone with its group. A commit
that carries its own expiry is gone when that time has come, although the broker takes it away a little later.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from seamark.spark.lake.tables.lake import Lake

KEY = ("group", "topic", "partition")


def as_of(spark: SparkSession, lake: Lake, time: datetime | int, groups: Sequence[str] | None = None) -> DataFrame:
    """Group, topic, partition, offset, leader_epoch, metadata and commit_time of all offsets that held at ``time``.

    ``time`` is a datetime (UTC if it has no zone) or milliseconds since 1970; ``groups`` keeps only these.
    """
    return offsets_at(lake.read(spark, "commits"), time_ms(time), groups)


def diff(
    spark: SparkSession, lake: Lake, a: datetime | int, b: datetime | int, groups: Sequence[str] | None = None
) -> DataFrame:
    """The offsets that are not the same at ``a`` and at ``b``.

    Columns: group, topic, partition, before, after, change (after - before, null unless both exist), what (``moved``,
    ``new``, ``gone``), commit_time and metadata of the later one.
    """
    return offsets_between(lake.read(spark, "commits"), time_ms(a), time_ms(b), groups)


def offsets_at(commits: DataFrame, at_ms: int, groups: Sequence[str] | None = None) -> DataFrame:
    """As ``as_of``, over the rows of a ``commits`` table."""
    from pyspark.sql import functions as F

    written_ms = F.unix_millis(F.coalesce("append_time", "commit_time"))
    rows = commits if groups is None else commits.where(F.col("group").isin(list(groups)))
    # Days are directories: files of later days are not opened. The day after is, as clocks may have run backwards.
    rows = rows.where(F.col("day") <= F.date_from_unix_date(F.lit(at_ms // 86_400_000 + 1)))
    known = rows.where(written_ms <= at_ms).select(
        *KEY, F.col("offsets_partition").eqNullSafe(-1).alias("is_sampled"),
        F.coalesce("offsets_offset", written_ms).alias("place"), written_ms.alias("written_ms"),
        "offset", "leader_epoch", "metadata", "commit_time", F.coalesce("tombstone", F.lit(False)).alias("tombstone"),
        F.unix_millis("expire_time").alias("expire_ms"),
    )  # fmt: skip
    # Places in the offsets topic and times of looks do not compare, so each kind has its own last row first.
    last = known.groupBy(*KEY, "is_sampled").agg(_last(known, "place").alias("row")).select(*KEY, "row.*")
    newest = last.groupBy(*KEY).agg(_last(last, "written_ms").alias("row")).select(*KEY, "row.*")
    is_there = ~F.col("tombstone") & F.col("offset").isNotNull()
    has_expired = F.col("expire_ms").isNotNull() & (F.col("expire_ms") >= 0) & (F.col("expire_ms") <= at_ms)
    return newest.where(is_there & ~has_expired).select(*KEY, "offset", "leader_epoch", "metadata", "commit_time")


def offsets_between(commits: DataFrame, a_ms: int, b_ms: int, groups: Sequence[str] | None = None) -> DataFrame:
    """As ``diff``, over the rows of a ``commits`` table."""
    from pyspark.sql import functions as F

    before = offsets_at(commits, a_ms, groups).select(*KEY, F.col("offset").alias("before"))
    after = offsets_at(commits, b_ms, groups).select(*KEY, F.col("offset").alias("after"), "commit_time", "metadata")
    both = before.join(after, list(KEY), "full_outer")
    what = F.when(F.col("before").isNull(), "new").when(F.col("after").isNull(), "gone").otherwise("moved")
    return both.where(~F.col("before").eqNullSafe(F.col("after"))).select(
        *KEY, "before", "after", (F.col("after") - F.col("before")).alias("change"), what.alias("what"),
        "commit_time", "metadata",
    )  # fmt: skip


def _last(rows: DataFrame, by: str) -> Column:
    from pyspark.sql import functions as F

    return F.max_by(F.struct(*(name for name in rows.columns if name not in KEY)), F.col(by))


def time_ms(time: datetime | int) -> int:
    """Milliseconds since 1970; a datetime without a zone is UTC.

    >>> time_ms(datetime(1970, 1, 1, 0, 0, 1)), time_ms(5)
    (1000, 5)
    """
    if isinstance(time, int):
        return time
    moment = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
