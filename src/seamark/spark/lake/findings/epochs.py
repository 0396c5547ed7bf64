"""When groups rebalanced and how many members they had then, of the classic and of the newer protocol alike.

A classic group writes all its members with each generation. A newer group (KIP-848) writes a record per member and one
for its epoch; its members are counted from those, in the order they were stored, so after a compaction the count is
that of the members whose records are left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EPOCH = "ConsumerGroupMetadata"
_MEMBER = "ConsumerGroupMemberMetadata"
_COLUMNS = ("group", "offsets_offset", "at_ms", "generation", "members", "joined", "gone", "duration_ms")


def epochs(generations: DataFrame, modern_groups: DataFrame) -> DataFrame:
    """One row per generation or epoch: group, offsets_offset, at_ms, generation, members, joined, gone, duration_ms.

    The last four are numbers; ``duration_ms`` is null unless it was seen. A group's end is no rebalance and has no row.
    """
    from pyspark.sql import functions as F

    def size(name: str) -> Column:
        return F.greatest(F.coalesce(F.size(name), F.lit(0)), F.lit(0)).cast("long").alias(name)

    classic = generations.where("not coalesce(tombstone, false)").select(
        "group", "offsets_offset", F.unix_millis("time").alias("at_ms"), F.col("generation").cast("long"),
        size("members"), size("joined"), size("gone"), "duration_ms",
    )  # fmt: skip
    return classic.unionByName(_modern(modern_groups)).where("at_ms is not null and offsets_offset is not null")


def _modern(records: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    is_gone = F.coalesce("tombstone", F.lit(False))
    of_member = Window.partitionBy("group", "member", "kind").orderBy("offsets_offset")
    of_group = Window.partitionBy("group").orderBy("offsets_offset")
    told = records.where(F.col("kind").isin(_EPOCH, _MEMBER)).select(
        "group", "offsets_offset", "time", "kind", "fields", is_gone.alias("is_gone"),
        # A member's record may be written again; only the first after nothing is somebody new.
        F.coalesce(F.lag(is_gone).over(of_member), F.lit(True)).alias("was_gone"),
    )  # fmt: skip
    is_member = F.col("kind") == _MEMBER
    counted = told.select(
        "*",
        F.sum(F.when(is_member & F.col("was_gone") & ~F.col("is_gone"), 1).otherwise(0)).over(of_group).alias("came"),
        F.sum(F.when(is_member & ~F.col("was_gone") & F.col("is_gone"), 1).otherwise(0)).over(of_group).alias("left"),
    )
    begun = counted.where((F.col("kind") == _EPOCH) & ~F.col("is_gone")).select(
        "*",
        F.coalesce(F.lag("came").over(of_group), F.lit(0)).alias("came_before"),
        F.coalesce(F.lag("left").over(of_group), F.lit(0)).alias("left_before"),
    )
    return begun.select(
        "group", "offsets_offset", F.unix_millis("time").alias("at_ms"),
        F.get_json_object("fields", "$.epoch").cast("long").alias("generation"),
        (F.col("came") - F.col("left")).alias("members"), (F.col("came") - F.col("came_before")).alias("joined"),
        (F.col("left") - F.col("left_before")).alias("gone"), F.lit(None).cast("long").alias("duration_ms"),
    ).select(*_COLUMNS)  # fmt: skip
