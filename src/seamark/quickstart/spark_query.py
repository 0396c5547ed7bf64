"""A Spark streaming query over the orders that commits to its group, and what it wrote, counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from seamark.quickstart.places import Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Some batches instead of one, so that there is progress to see, to commit and to report.
_BATCHES = 4


class Written(NamedTuple):
    """Rows in the query's output: distinct ones by partition and offset, and those that are there again."""

    distinct: int
    repeated: int


def stream(
    spark: SparkSession,
    config: Mapping[str, Any],
    topic: str,
    group: str,
    places: Places,
    rows: int,
    reached: Callable[[int], None],
) -> Written:
    """Run the query over all ``rows`` there are, commit it to the group, and count its output."""
    reader = spark.readStream.format("seamark").option("subscribe", topic).option("startingOffsets", "earliest")
    for key, value in config.items():
        reader = reader.option(f"kafka.{key}", str(value))
    query = (
        reader.option("groupId", group)
        .option("maxOffsetsPerTrigger", str(max(1, rows // _BATCHES)))
        .load()
        .writeStream.format("parquet")
        .option("path", str(places.parquet.resolve()))
        .option("checkpointLocation", str(places.checkpoint.resolve()))
        .trigger(availableNow=True)
        .start()
    )
    while not query.awaitTermination(1):
        reached(sum(progress.numInputRows for progress in query.recentProgress))
    output = spark.read.parquet(str(places.parquet.resolve()))
    total = output.count()
    distinct = output.select("partition", "offset").distinct().count()
    return Written(distinct, total - distinct)
