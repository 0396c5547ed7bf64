"""Records as Arrow columns: pieces of a polled batch as works, and record batches for handlers.

A batch that was polled as columns is cut into pieces of at most a call's size, without copying. Each piece is one work
with the offsets of its rows, so nothing is made per record. Only when a piece fails is it taken apart into records. The
schema is that of ``Consumer.poll_arrow``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from seamark.errors import MissingExtra
from seamark.parallel.core.ports import PolledColumns
from seamark.parallel.core.work import ColumnSlice, InFlightRecord
from seamark.wire.offsets.done_ahead import DoneAhead

# What a row costs beyond its bytes: its offset, twice, and its entry among those in flight.
ROW_OVERHEAD_BYTES = 160


class RowRecord(NamedTuple):
    """A row of columns as a record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    timestamp_type: int = 0
    leader_epoch: int = -1


@cache
def _arrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError:
        raise MissingExtra("a batch handler with arrow=True", "arrow") from None


def require_arrow() -> None:
    """MissingExtra if record batches cannot be made here."""
    _arrow()


def without_known(columns: PolledColumns, known: DoneAhead | None) -> PolledColumns:
    """What is left to run: rows that an earlier commit's map says are done are cut out."""
    if known is None or columns.batch is None:
        return columns
    wanted = [place for place, offset in enumerate(columns.offsets) if offset not in known]
    if len(wanted) == len(columns.offsets):
        return columns
    offsets = [columns.offsets[place] for place in wanted]
    return columns._replace(batch=columns.batch.take(_arrow().array(wanted, "int64")), offsets=offsets)


def slices_of(columns: PolledColumns, term: int, most: int, lane: Any, now: float) -> list[ColumnSlice]:
    """The rows as works of at most ``most`` rows."""
    batch, offsets = columns.batch, columns.offsets
    if not offsets:
        return []
    row_bytes = batch.get_total_buffer_size() / batch.num_rows if batch.num_rows else 0
    pieces = []
    for start in range(0, len(offsets), most):
        some = offsets[start : start + most]
        size = int(len(some) * (row_bytes + ROW_OVERHEAD_BYTES))
        piece = batch.slice(start, len(some))
        pieces.append(ColumnSlice(columns.partition, term, some, piece, lane, size, now))
    return pieces


def split_batch(work: InFlightRecord) -> list[InFlightRecord]:
    """A work for each row; together they cost what the piece did."""
    assert work.offsets is not None
    share, rest = divmod(work.size_bytes, work.count)
    works: list[InFlightRecord] = []
    for row, offset in zip(rows_of(work.record), work.offsets, strict=True):
        size = share + (rest if not works else 0)
        single = InFlightRecord(
            work.partition, work.term, offset, row, lane=work.lane, size_bytes=size, since=work.since
        )
        single.attempts = work.attempts
        single.started = work.started
        works.append(single)
    return works


def rows_of(batch: Any) -> list[RowRecord]:
    columns = {name: batch.column(name) for name in batch.schema.names}
    stamps = columns["timestamp"].cast("int64").to_pylist()
    return [
        RowRecord(topic, partition, offset, key, value, _headers(headers), stamp if stamp is not None else -1, kind)
        for topic, partition, offset, key, value, headers, stamp, kind in zip(
            columns["topic"].to_pylist(),
            columns["partition"].to_pylist(),
            columns["offset"].to_pylist(),
            columns["key"].to_pylist(),
            columns["value"].to_pylist(),
            columns["headers"].to_pylist(),
            stamps,
            columns["timestamp_type"].to_pylist(),
            strict=True,
        )
    ]


def _headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((header["key"], header["value"]) for header in headers) if headers else ()


def batch_of_works(works: Sequence[InFlightRecord]) -> Any:
    """What an Arrow handler is given: the pieces of the call, or its records, as one record batch."""
    if len(works) == 1 and works[0].offsets is not None:
        return works[0].record
    batches: list[Any] = []
    records: list[Any] = []
    for work in works:
        if work.offsets is None:
            records.append(work.record)
            continue
        if records:
            batches.append(batch_of_records(records))
            records = []
        batches.append(work.record)
    if records:
        batches.append(batch_of_records(records))
    return batches[0] if len(batches) == 1 else _joined(batches)


def _joined(batches: list[Any]) -> Any:
    pa = _arrow()
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    return table.to_batches()[0]


@cache
def schema() -> Any:
    pa = _arrow()
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("topic", pa.dictionary(pa.int32(), pa.string())),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
            pa.field("timestamp_type", pa.int32()),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(pa.field("element", header))),
        ]
    )


def batch_of_records(records: Sequence[Any]) -> Any:
    """Records of any partitions as one record batch."""
    pa = _arrow()
    wanted = schema()
    columns = [
        pa.array([record.topic for record in records]).dictionary_encode(),
        pa.array([record.partition for record in records], pa.int32()),
        pa.array([record.offset for record in records], pa.int64()),
        pa.array([record.timestamp_ms for record in records], pa.int64()).cast(pa.timestamp("ms", tz="UTC")),
        pa.array([record.timestamp_type for record in records], wanted.field("timestamp_type").type),
        pa.array([record.key for record in records], wanted.field("key").type),
        pa.array([record.value for record in records], wanted.field("value").type),
        pa.array(
            [
                [{"key": name, "value": content} for name, content in record.headers] if record.headers else None
                for record in records
            ],
            wanted.field("headers").type,
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)
