"""Spark tasks that answer the driver with lines of text: rows never leave a task, it writes them as files itself.

What a task raises comes out as one sentence (``errors.translated``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from seamark.spark.lake.errors import translated

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def task_lines(frame: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Iterator[str]]) -> list[str]:
    """All lines that ``work`` yields, which is run on each of the frame's partitions."""

    def lines(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for line in work(batches):
            yield pa.RecordBatch.from_pydict({"line": [line]})

    with translated():
        return [row.line for row in frame.mapInArrow(lines, "line string").collect()]


def numbered_tasks(spark: SparkSession, count: int, work: Callable[[int], str]) -> list[str]:
    """The line of ``work(number)`` for each number below ``count``, each in a task of its own."""

    def lines(batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
        for batch in batches:
            yield from map(work, batch.column(0).to_pylist())

    return task_lines(spark.range(0, count, 1, count), lines)
