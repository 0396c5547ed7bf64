"""A batch query: ranges are fixed once, when Spark asks for partitions, and every action on the frame reads the same.

Nothing is committed: a batch query has no checkpoint that could say what is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from seamark.spark.errors import TopicMissing
from seamark.spark.read.cluster import Cluster
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.ranges import OffsetRange, split
from seamark.spark.read.resolution import ending_offsets, find_topics, partitions_of, require_topics, starting_offsets
from seamark.spark.read.topic_changes import readable_ranges

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class RangePartition(InputPartition):
    """One task's range, as Spark carries it to a worker."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(tuple(wanted))
        self.wanted = wanted


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        from seamark.spark.read.kafka_cluster import KafkaCluster

        with closing(KafkaCluster(self._options.client)) as cluster:
            return [RangePartition(wanted) for wanted in plan(cluster, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes up a task for a query that has none.
        if not isinstance(partition, RangePartition):
            return iter(())
        from seamark.spark.read.task import read_range, then_freeze_gc

        return then_freeze_gc(read_range(partition.wanted, self._options, self._schema))


def plan(cluster: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """The tasks of a batch query, as the cluster is now."""
    topics = find_topics(cluster, options.subscription)
    require_topics(topics, options.subscription)
    if not topics:
        raise TopicMissing(f"subscribePattern={options.subscription.pattern!r}: no topic matches")
    begin = starting_offsets(cluster, options, topics)
    end = ending_offsets(cluster, options.ending, partitions_of(topics))
    ranges = [
        OffsetRange(partition, topics[partition.topic].topic_id, begin[partition], end[partition])
        for partition in partitions_of(topics)
    ]
    return split(readable_ranges(ranges, cluster, options), options.min_partitions, options.max_records_per_partition)
