"""A streaming query: Spark's calls, handed to the core that decides.

One instance lives in a process on the driver's host for the whole run and is asked about offsets; another is pickled to
the tasks and only reads. The first is the only one that has connections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from seamark.spark.read.batch_reader import RangePartition
from seamark.spark.read.offset_document import read_document, write_document
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.stream_core import StreamCore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._made: StreamCore | None = None

    @property
    def _core(self) -> StreamCore:
        if self._made is None:
            from seamark.spark.read.kafka_cluster import KafkaCluster

            self._made = StreamCore(self._options, KafkaCluster(self._options.client))
        return self._made

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_per_trigger is not None:
            return ReadMaxRows(self._options.max_per_trigger)
        if self._options.min_per_trigger is not None:
            return ReadMinRows(self._options.min_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._core.stop_at_what_is_there()

    def initialOffset(self) -> dict[str, Any]:
        return write_document(self._core.initial())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        # A query that runs once reads all that is there, whatever the limits say.
        is_patient = not isinstance(limit, ReadAllAvailable)
        return write_document(self._core.latest(read_document(start), most, is_patient=is_patient))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._core.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [RangePartition(wanted) for wanted in self._core.plan(read_document(start), read_document(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        from seamark.spark.read.task import read_range, then_freeze_gc

        return then_freeze_gc(read_range(partition.wanted, self._options, self._schema))

    def commit(self, end: dict[str, Any]) -> None:
        self._core.confirm(read_document(end))

    def stop(self) -> None:
        # Also called in the middle of a batch: nothing may be committed here.
        if self._made is not None:
            self._made.close()
            self._made = None
