"""A task: the records of one range as Spark's Arrow batches.

The next fetch is on its way while Spark takes a batch. The topic's id is compared for every batch: should the topic be
made anew under the reader, nothing of the new one is ever given out as a part of the old one. Offsets that were deleted
between planning and reading are an error that names the partition, or are skipped with a warning, as failOnDataLoss
says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from seamark.client.admin.offsets import list_offsets
from seamark.client.cluster_view import NO_TOPIC_ID
from seamark.client.errors import RangeGone
from seamark.client.fetch.ranges import fetch_columns
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.timing import Deadline
from seamark.readable_log import readable_logger
from seamark.spark.errors import RecordsLost, SparkSourceError, TopicRecreated
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.projection import RowBatches
from seamark.spark.read.ranges import OffsetRange
from seamark.spark.read.worker_connections import connection
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = readable_logger("seamark.spark")


def read_range(wanted: OffsetRange, options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Every record of the range once, in order."""
    _check_decoder()
    with connection(options.client) as network:
        yield from _batches(network, wanted, options, RowBatches(schema, wanted.partition))


class _AsDecoded(NamedTuple):
    decoded: tuple[str, ...]

    def row_batch(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        return decoded


def read_columns(wanted: OffsetRange, options: ReadOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The same records in the client's own columns, without Spark's types."""
    _check_decoder()
    with connection(options.client) as network:
        yield from _batches(network, wanted, options, _AsDecoded(columns))


def _batches(
    network: NetworkClient, wanted: OffsetRange, options: ReadOptions, rows: RowBatches | _AsDecoded
) -> Iterator[pa.RecordBatch]:
    begin = wanted.begin
    while begin < wanted.end:
        try:
            for decoded in fetch_columns(
                network,
                options.client,
                wanted.partition,
                begin,
                wanted.end,
                columns=rows.decoded,
                timestamp_unit="us",
                fetch_bytes=options.fetch_bytes,
            ):
                _check_identity(network, wanted)
                yield rows.row_batch(decoded)
        except RangeGone:
            _check_identity(network, wanted)
            begin = _behind_the_gap(network, wanted, options, begin)
        else:
            _check_identity(network, wanted)
            return


def _behind_the_gap(network: NetworkClient, wanted: OffsetRange, options: ReadOptions, begin: int) -> int:
    """Where to go on when the log does not hold ``begin`` any more."""
    log_start = _log_start(network, wanted.partition, options)
    if log_start <= begin:
        raise RecordsLost(f"the log of {wanted.partition} ends before the planned offset {wanted.end}")
    what = f"offsets {begin} to {min(log_start, wanted.end)} of {wanted.partition} were deleted before they were read"
    if options.fail_on_loss:
        raise RecordsLost(what)
    log.warning("%s; continuing, because failOnDataLoss=false", what)
    return log_start


def _log_start(network: NetworkClient, partition: TopicPartition, options: ReadOptions) -> int:
    deadline = Deadline(options.client.default_api_timeout_ms / 1000)
    found = IoThread.get().run(list_offsets(network, {partition: "earliest"}, deadline))
    return found[partition].offset


def _check_identity(network: NetworkClient, wanted: OffsetRange) -> None:
    found = network.view.topic_id(wanted.partition.topic)
    if wanted.topic_id and found != NO_TOPIC_ID and found.hex() != wanted.topic_id:
        raise TopicRecreated(wanted.partition.topic, wanted.topic_id, found.hex())


def _check_decoder() -> None:
    """Say what is wrong when the decoder cannot be loaded, which is mostly the worker's memory limit."""
    try:
        import seamark.wire.columns.columns  # noqa: F401
    except (OSError, MemoryError) as error:
        raise SparkSourceError(
            f"the Arrow decoder cannot be loaded ({error}): Python workers need more memory, "
            "set spark.executor.pyspark.memory to at least 1g"
        ) from error
