"""A task: the records of one range as Spark's Arrow batches, and what is left in the worker for the next task.

The next fetch is on its way while Spark takes a batch. The topic's id is compared for every batch: should the topic be
made anew under the reader, nothing of the new one is ever given out as a part of the old one. Offsets that were deleted
between planning and reading are an error that names the partition, or are skipped with a warning, as failOnDataLoss
says.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from seamark.client.config.config import ConsumerConfig
from seamark.client.errors import RangeGone
from seamark.client.fetch.ranges import fetch_columns
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.readable_log import readable_logger
from seamark.spark.errors import RecordsLost, SparkSourceError, TopicRecreated
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.projection import RowBatches
from seamark.spark.read.ranges import OffsetRange
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = readable_logger("seamark.spark")

# Different queries in one worker; more than this would be connections that nobody comes back for.
_MOST_IDLE = 8

_idle: dict[ConsumerConfig, NetworkClient] = {}
_owner = os.getpid()
_frozen_in = -1


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
            begin = _behind_the_gap(wanted, options, begin)
        else:
            _check_identity(network, wanted)
            return


def _behind_the_gap(wanted: OffsetRange, options: ReadOptions, begin: int) -> int:
    """Where to go on when the log does not hold ``begin`` any more."""
    log_start = _log_start(wanted.partition, options)
    if log_start is None:
        what = f"{wanted.partition} is gone, and with it offsets {begin} to {wanted.end}"
    elif log_start <= begin:
        raise RecordsLost(f"the log of {wanted.partition} ends before the planned offset {wanted.end}")
    else:
        gone = min(log_start, wanted.end)
        what = f"offsets {begin} to {gone} of {wanted.partition} were deleted before they were read"
    if options.fail_on_loss:
        raise RecordsLost(what)
    log.warning("%s; continuing, because failOnDataLoss=false", what)
    return wanted.end if log_start is None else log_start


def _log_start(partition: TopicPartition, options: ReadOptions) -> int | None:
    from seamark.spark.read.kafka_cluster import KafkaCluster

    with closing(KafkaCluster(options.client)) as cluster:
        return cluster.log_starts([partition]).get(partition)


def _check_identity(network: NetworkClient, wanted: OffsetRange) -> None:
    topic_id = network.view.topic_id(wanted.partition.topic)
    if wanted.topic_id and any(topic_id) and topic_id.hex() != wanted.topic_id:
        raise TopicRecreated(wanted.partition.topic, wanted.topic_id, topic_id.hex())


def _check_decoder() -> None:
    """Say what is wrong when the decoder cannot be loaded, which is mostly the worker's memory limit."""
    try:
        import seamark.wire.columns.columns  # noqa: F401
    except (OSError, MemoryError) as error:
        raise SparkSourceError(
            f"the Arrow decoder cannot be loaded ({error}): Python workers need more memory, "
            "set spark.executor.pyspark.memory to at least 1g"
        ) from error


@contextmanager
def connection(config: ConsumerConfig) -> Iterator[NetworkClient]:
    """A network client for the configuration, for the caller alone; kept from one task to the next.

    Spark reuses worker processes, and a task that has to connect and to ask for metadata first would wait for it each
    time. It is given back when the task ended well; after an error or an unfinished read it is closed instead. Best
    effort: workers end when Spark likes, and a forked child never uses what its parent made.
    """
    global _owner
    if _owner != os.getpid():
        _idle.clear()
        _owner = os.getpid()
    taken = _idle.pop(config, None) or NetworkClient(config)
    taken.rest(is_resting=False)
    try:
        yield taken
    except BaseException:
        _close(taken)
        raise
    taken.rest(is_resting=True)
    _idle[config] = taken
    while len(_idle) > _MOST_IDLE:
        _close(_idle.pop(next(iter(_idle))))


def idle_count() -> int:
    """How many connections wait for a task."""
    return len(_idle)


def _close(network: NetworkClient) -> None:
    IoThread.get().run(network.close())


def then_freeze_gc(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; and when the first task of the process has ended, a worker that is quick to end the next."""
    yield from batches
    freeze_gc()


def freeze_gc() -> bool:
    """Take everything that exists after the first task out of the collector's sight; whether this was the first.

    Spark runs a full garbage collection after every task. With numba and Arrow loaded that takes 80 ms, each time, to
    find nothing: the modules are there to stay.
    """
    global _frozen_in
    if _frozen_in == os.getpid():
        return False
    _frozen_in = os.getpid()
    gc.freeze()
    return True
