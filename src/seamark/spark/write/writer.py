"""The sink: ``df.write.format("seamark")`` and ``df.writeStream.format("seamark")``, as Spark's Kafka sink has it.

A task sends its rows through an idempotent producer and ends when all of them are acknowledged. Delivery is at least
once: a task, or after a restart a micro-batch, that Spark runs again writes its rows again, and what a failed attempt
wrote stays in the topic. A streaming query in complete mode appends its whole result each time, as Spark's sink does.

Instances are pickled to the tasks and, when streaming, made anew for every batch and every commit: they hold nothing
but their options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from seamark.counts import counted
from seamark.errors import UsageError
from seamark.readable_log import readable_logger
from seamark.spark.write.options import WriteOptions, check_columns
from seamark.spark.write.producers import check_topic, producer_for
from seamark.spark.write.rows import RowSender

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = readable_logger("seamark.spark")


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """What ``df.write`` needs, checked up to the topic's existence."""
    if overwrite:
        raise UsageError("mode 'overwrite': records in a topic cannot be overwritten, use mode('append')")
    return BatchWriter(_checked(options, schema))


def stream_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,  # noqa: ARG001 - complete mode appends too
) -> DataSourceStreamArrowWriter:
    """What ``df.writeStream`` needs; called by Spark for every micro-batch."""
    return StreamWriter(_checked(options, schema))


def _checked(options: Mapping[str, str], schema: StructType) -> WriteOptions:
    read = WriteOptions.of(options)
    check_columns([(field.name, field.dataType.simpleString()) for field in schema.fields], read.topic)
    if read.topic is not None:
        check_topic(read, read.topic)
    return read


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver: how many records it wrote."""

    records: int


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self._options, iterator)

    def commit(self, messages: list[Any]) -> None:
        log.info("%s written", counted(_total(messages), "record"))

    def abort(self, messages: list[Any]) -> None:
        log.warning(
            "the write failed; what its tasks sent is in Kafka, at least %s", counted(_total(messages), "record")
        )


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self._options, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        log.info("%s written for batch %d", counted(_total(messages), "record"), batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        log.warning(
            "batch %d failed and will be written again; what its tasks sent is in Kafka, at least %s",
            batchId,
            counted(_total(messages), "record"),
        )


def _write(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    with producer_for(options) as producer:
        sender = RowSender(producer, options.topic)
        for batch in batches:
            sender.send(batch)
        sender.finish()
        return Written(sender.count)


def _total(messages: list[Any]) -> int:
    return sum(message.records for message in messages if isinstance(message, Written))
