"""A chunk as an Arrow record batch: what ``poll_arrow`` gives. Needs ``seamark[arrow]``.

One record batch holds records of one partition. It says so in two columns, so that batches can be written to one table
as they come: ``topic`` (dictionary-encoded, one entry) and ``partition``. The others are ``offset``, ``timestamp``
(milliseconds, UTC), ``timestamp_type`` (0 the producer's time, 1 the broker's), ``key``, ``value`` (binary) and
``headers`` (a list of key and value, null where a record has none). Deserializers are not applied.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from seamark.client.fetch.chunks import Chunk, end_of
from seamark.client.fetch.records import ReadLimits
from seamark.errors import DecodeError
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

# In one record batch: the columns of as many take some ten megabytes beside keys, values and headers.
MOST_ROWS = 1 << 20
COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")


@cache
def _columns_module() -> Any:
    """Loaded at the first batch: it brings numba, which a consumer of objects never needs."""
    return import_module("seamark.wire.columns.columns")


def columns_of(chunk: Chunk, partition: TopicPartition, max_bytes: int, limits: ReadLimits) -> pa.RecordBatch | None:
    """The next records of the chunk, None if those bytes hold none; DecodeError if the very next batch is unsound.

    They are of one leader epoch, the chunk's ``leader_epoch`` afterwards.
    """
    first_offset = chunk.offset
    mark = chunk.mark()
    try:
        return _next_columns(chunk, partition, max_bytes, limits)
    except DecodeError:
        # Hand out what stands before the unsound batch; the next call then meets it first.
        chunk.go_back(mark)
    sound: list[pa.RecordBatch] = []
    while not chunk.is_empty and sum(batch.nbytes for batch in sound) < limits.poll_bytes:
        mark, epoch = chunk.mark(), chunk.leader_epoch
        try:
            batch = _next_columns(chunk, partition, 1, limits)
        except DecodeError:
            chunk.go_back(mark)
            if chunk.offset == first_offset:
                raise
            break
        if sound and chunk.leader_epoch != epoch:
            chunk.go_back(mark)
            break
        if batch is not None:
            sound.append(batch)
    import pyarrow as pa

    return pa.concat_batches(sound) if sound else None


def _next_columns(chunk: Chunk, partition: TopicPartition, max_bytes: int, limits: ReadLimits) -> pa.RecordBatch | None:
    """Of the next batches as many records as memory is allowed for: a few bytes can unfold to many."""
    mark, first_offset = chunk.mark(), chunk.offset
    pieces = chunk.take_batches(max_bytes)
    if not pieces:
        return None
    decoded = _columns_module().decode_columns(
        pieces,
        columns=COLUMNS,
        start=first_offset,
        verify=limits.verify,
        max_batch_bytes=limits.batch_bytes,
        max_headers=limits.record_headers,
        stop_bytes=limits.poll_bytes,
        stop_rows=MOST_ROWS,
    )
    if decoded.next_offset < end_of(pieces[-1], first_offset)[0]:
        chunk.go_back(mark, offset=decoded.next_offset, leader_epoch=chunk.leader_epoch)
    return with_place(decoded.batch, partition)


def with_place(batch: pa.RecordBatch, partition: TopicPartition) -> pa.RecordBatch:
    """The batch with the columns that say where its rows come from."""
    import pyarrow as pa

    rows = batch.num_rows
    indexes = pa.repeat(pa.scalar(0, pa.int32()), rows)
    topic = pa.DictionaryArray.from_arrays(indexes, pa.array([partition.topic], pa.string()))
    number = pa.repeat(pa.scalar(partition.partition, pa.int32()), rows)
    schema = pa.schema([pa.field("topic", topic.type), pa.field("partition", pa.int32()), *batch.schema])
    return pa.RecordBatch.from_arrays([topic, number, *batch.columns], schema=schema)
