"""Who commits how much: every record of the offsets topic decoded and counted per group, without tables and state.

A first look at a large topic. It runs as Spark tasks, or without Spark in a few threads of this process, since columns
are fetched, decoded and summed outside of Python's lock; either way only the sums per group are brought together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

from seamark.spark.lake.fill.tasks import Before, TopicTask
from seamark.spark.read.ranges import split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SUMS = ("commits", "tombstones", "generations", "others")
COLUMNS = ", ".join(["group string", *(f"{name} bigint" for name in (*_SUMS, "first_ms", "last_ms"))])
# Ranges per thread: the last ones to end then are short.
_PARTS = 2


def totals(config: Mapping[str, Any], threads: int | None = None) -> pa.Table:
    """A row per group, and one without a name for records that no group can be told of; sorted by name."""
    workers = threads or os.cpu_count() or 1
    tasks = planned(config, workers * _PARTS)
    if not tasks:
        return merged([])
    with ThreadPoolExecutor(min(workers, len(tasks))) as pool:
        return merged(pool.map(count_range, tasks))


def totals_on_spark(spark: SparkSession, config: Mapping[str, Any]) -> DataFrame:
    """The same as a frame, counted by Spark's tasks."""
    tasks = planned(config, spark.sparkContext.defaultParallelism * _PARTS)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from count_range(tasks[number]).to_batches()

    counted = spark.range(0, max(1, len(tasks)), 1, max(1, len(tasks))).filter(f"id < {len(tasks)}")
    sums = [f"sum({name}) {name}" for name in _SUMS] + ["min(first_ms) first_ms", "max(last_ms) last_ms"]
    frame = counted.mapInArrow(work, COLUMNS)
    from pyspark.sql import functions

    return frame.groupBy("group").agg(*(functions.expr(expression) for expression in sums))


def planned(config: Mapping[str, Any], parts: int) -> list[TopicTask]:
    """The topic from its beginning, cut into ranges of about the same size."""
    from seamark.spark.lake.fill.planning import plan, topic_options
    from seamark.spark.lake.tables.manifest import Manifest
    from seamark.spark.read.kafka_cluster import KafkaCluster

    options = topic_options(config)
    with closing(KafkaCluster(options.client)) as cluster:
        _, tasks = plan(cluster, options, Manifest())
    cut = split([task.wanted for task in tasks], min_parts=parts)
    return [TopicTask(piece.partition.partition, Before(), piece, options) for piece in cut]


def count_range(task: TopicTask) -> pa.Table:
    """The sums of one range."""
    return merged(count_batch(records) for records in task.records())


def count_batch(records: Any) -> pa.Table:
    """The sums of one batch of records."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = records.decoded()
    commits, groups = columns.commits, columns.groups
    is_commit = commits.column("is_commit").cast(pa.int64())
    ones = pa.array(np.ones(commits.num_rows, np.int64))
    told = pa.table(
        {
            "group": commits.column("group"),
            "commits": is_commit,
            "tombstones": pc.subtract(ones, is_commit),
            "first_ms": pa.array(records.times_ms[np.asarray(commits.column("row"))]),
        }
    )
    told = told.append_column("last_ms", told["first_ms"])
    parts = [_sums(told, ("commits", "tombstones"))]
    for batch, name in ((groups, "generations"), (columns.newer, "others"), (columns.rejects, "others")):
        if batch.num_rows:
            times = pa.array(records.times_ms[np.asarray(batch.column("row"))])
            names = batch.column("group") if "group" in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
            count = pa.array(np.ones(batch.num_rows, np.int64))
            parts.append(_sums(pa.table({"group": names, name: count, "first_ms": times, "last_ms": times}), (name,)))
    return merged(parts)


def merged(parts: Iterable[pa.Table]) -> pa.Table:
    """Sums of sums."""
    import pyarrow as pa

    kinds = {"group": pa.string(), **dict.fromkeys((*_SUMS, "first_ms", "last_ms"), pa.int64())}
    schema = pa.schema(kinds)
    tables = [schema.empty_table(), *parts]
    whole = _sums(pa.concat_tables(tables, promote_options="default"), _SUMS).select(schema.names).sort_by("group")
    for place, name in enumerate(schema.names):
        if name in _SUMS:
            whole = whole.set_column(place, name, whole[name].fill_null(0))
    return whole.cast(schema)


def _sums(table: pa.Table, names: Iterable[str]) -> pa.Table:
    wanted = [(name, "sum") for name in names] + [("first_ms", "min"), ("last_ms", "max")]
    summed = table.group_by("group", use_threads=False).aggregate(wanted)
    shorter = {f"{name}_{how}": name for name, how in wanted}
    return summed.rename_columns([shorter.get(name, name) for name in summed.column_names])
