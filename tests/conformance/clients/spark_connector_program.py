"""Spark's own Kafka connector against one broker; run as a module, prints one JSON line.

    spark_connector_program BOOTSTRAP SOURCE BATCH_TARGET STREAM_TARGET CHECKPOINT

Reads SOURCE as a batch, writes what it read to BATCH_TARGET as a batch, and copies SOURCE to STREAM_TARGET twice as a
stream under ``availableNow``: the second run finds nothing new in the checkpoint but what it adds in between.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from tests.support.spark_session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(bootstrap: str, source: str, batch_target: str, stream_target: str, checkpoint: str) -> None:
    servers = {"kafka.bootstrap.servers": bootstrap}
    with local_session() as spark:
        read = spark.read.format("kafka").options(**servers, includeHeaders="true", subscribe=source).load()
        rows = [
            [
                row.partition,
                row.offset,
                bytes(row.key or b"").decode(),
                bytes(row.value).decode(),
                len(row.headers or ()),
            ]
            for row in read.collect()
        ]
        read.select("key", "value").write.format("kafka").options(**servers, topic=batch_target).save()
        batches = [copy(spark, servers, source, stream_target, checkpoint)]
        added = spark.createDataFrame([(b"late", b"late-value")], "key binary, value binary")
        added.write.format("kafka").options(**servers, topic=source).save()
        batches.append(copy(spark, servers, source, stream_target, checkpoint))
    print(json.dumps({"rows": sorted(rows), "stream_rows": batches}))


def copy(spark: SparkSession, servers: dict[str, str], source: str, target: str, checkpoint: str) -> list[int]:
    """Run the stream until it has caught up; how many rows each batch took."""
    stream = (
        spark.readStream.format("kafka")
        .options(**servers, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="40")
        .load()
    )
    query = (
        stream.select("key", "value")
        .writeStream.format("kafka")
        .options(**servers, topic=target, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


if __name__ == "__main__":
    main(*sys.argv[1:])
