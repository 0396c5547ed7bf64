"""Kafka's record batches as Arrow columns, without a Python object per record. Needs ``seamark[arrow]``.

One call takes the bytes of one partition as a Fetch response or a log segment holds them, and returns one
``pyarrow.RecordBatch``. ``batches`` chooses the batches, ``kernels`` decodes their records,
``buffers`` makes room for the columns. ``seamark.wire.records`` reads the same bytes as objects; both accept and
refuse the same ones, with the same field and position in the error.

Only the columns that are asked for are filled, but every record is checked in full. A first pass cannot know the sizes,
so a kernel writes into room for the worst case: a column never has more bytes than the records it comes from. What
turned out to be less than half full is copied to its size before it is handed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from seamark.errors import ConfigError, MissingExtra, UsageError
from seamark.wire.columns.batches import Selection
from seamark.wire.records import MAX_HEADERS_PER_RECORD
from seamark.wire.records.record_batch import INT64_MAX

try:
    import pyarrow as pa

    from seamark.wire.columns import kernels
    from seamark.wire.columns.buffers import HEADERS_TYPE, ColumnBuffers
except ImportError as missing:
    raise MissingExtra("decoding records to Arrow columns", "arrow") from missing

Buffer = bytes | bytearray | memoryview

# Four times what the reader of objects allows a single batch: a call takes many.
DEFAULT_MAX_BYTES = 512 << 20

_WANTED = {
    "key": kernels.WANT_KEY,
    "value": kernels.WANT_VALUE,
    "offset": kernels.WANT_OFFSET,
    "timestamp": kernels.WANT_TIMESTAMP,
    "timestamp_type": kernels.WANT_TIMESTAMP_TYPE,
    "headers": kernels.WANT_HEADERS,
}
COLUMN_NAMES = tuple(_WANTED)

_TICKS_PER_MS = {"ms": 1, "us": 1000}
_FIELDS = {
    unit: {
        "key": pa.field("key", pa.binary()),
        "value": pa.field("value", pa.binary()),
        "offset": pa.field("offset", pa.int64()),
        "timestamp": pa.field("timestamp", pa.timestamp(unit, "UTC")),
        "timestamp_type": pa.field("timestamp_type", pa.int32()),
        "headers": pa.field("headers", HEADERS_TYPE),
    }
    for unit in _TICKS_PER_MS
}


class ColumnBatch(NamedTuple):
    """Decoded records, and how far the bytes reach beyond them.

    ``next_offset`` is where to read on: behind every whole batch that was looked at, also those without a row (control
    batches, aborted transactions, offsets that compaction removed), and never beyond ``end``. It is ``start`` when
    there was no whole batch. ``cut_off`` says that the last buffer ended inside a batch: with no progress it means that
    the batch is larger than the fetch. ``row_count`` is that of ``batch``, and holds for no columns too.
    """

    batch: pa.RecordBatch
    next_offset: int | None
    cut_off: bool
    row_count: int


def columns_schema(
    columns: Iterable[str] = ("key", "value", "offset", "timestamp"), *, timestamp_unit: Literal["ms", "us"] = "ms"
) -> pa.Schema:
    """The schema that ``decode_columns`` gives for the same arguments."""
    names = tuple(columns)
    for place, name in enumerate(names):
        if name not in _WANTED:
            raise ConfigError("columns", name, f"no such column; the columns are {', '.join(COLUMN_NAMES)}")
        if name in names[:place]:
            raise ConfigError("columns", name, "it is named twice")
    if timestamp_unit not in _TICKS_PER_MS:
        raise ConfigError("timestamp_unit", timestamp_unit, "it must be 'ms' or 'us'")
    fields = _FIELDS[timestamp_unit]
    return pa.schema([fields[name] for name in names])


def decode_columns(
    buffers: Buffer | Sequence[Buffer],
    *,
    columns: Iterable[str] = ("key", "value", "offset", "timestamp"),
    start: int | None = None,
    end: int | None = None,
    verify: bool = True,
    max_bytes: int = DEFAULT_MAX_BYTES,
    skip_control: bool = True,
    aborted: Iterable[tuple[int, int]] | None = None,
    timestamp_unit: Literal["ms", "us"] = "ms",
    log_end: int | None = None,
    max_batch_bytes: int | None = None,
    max_headers: int = MAX_HEADERS_PER_RECORD,
    stop_bytes: int | None = None,
    stop_rows: int | None = None,
) -> ColumnBatch:
    """Decode the batches of one partition, in one buffer or several in order, to Arrow columns.

    ``start`` and ``end`` cut to the offsets from ``start`` up to but not including ``end``. ``verify`` checks each
    batch's CRC. ``max_bytes`` bounds what all compressed batches of the call unfold to. ``aborted`` lists (producer id,
    first offset) as a read_committed Fetch response does, and drops what those transactions wrote. A buffer may end
    inside a batch, which is left out: the next buffer starts with it, or the next call reads on from there.
    ``timestamp_unit="us"`` is what Spark's TimestampType is made of; a time that does not fit it is
    refused. With ``log_end`` a batch that says it ends behind that, or begins before the one before it has
    ended, is refused too. So is one that unfolds to more than ``max_batch_bytes``, and a record with more than
    ``max_headers``.

    ``stop_bytes`` and ``stop_rows`` end the call early: before the batch that would bring the bytes of records above
    the one, but not before the first; and at the other, or as many headers, inside a batch. ``next_offset`` is where
    to read on, from the same buffers.
    """
    schema = columns_schema(columns, timestamp_unit=timestamp_unit)
    wanted = 0
    for name in schema.names:
        wanted |= _WANTED[name]
    for option, offset in (("start", start), ("end", end)):
        if offset is not None and not 0 <= offset <= INT64_MAX:
            raise ConfigError(option, offset, "an offset must be from 0 to 2**63 - 1")
    if max_bytes < 0:
        raise ConfigError("max_bytes", max_bytes, "it must not be negative")
    views = [_view(buffer) for buffer in ([buffers] if isinstance(buffers, Buffer) else buffers)]
    selection = Selection(
        start,
        end,
        verify=verify,
        max_bytes=max_bytes,
        skip_control=skip_control,
        aborted=aborted,
        max_batch_bytes=max_batch_bytes,
        max_headers=max_headers,
        stop_bytes=stop_bytes,
        stop_rows=stop_rows,
        log_end=log_end,
    )
    selection.walk(views)
    decoded = ColumnBuffers(wanted, selection)
    decoded.fill(_TICKS_PER_MS[timestamp_unit])
    batch = pa.RecordBatch.from_arrays([decoded.array(field) for field in schema], schema=schema)
    next_offset = selection.next_offset if decoded.stopped_at is None else decoded.stopped_at
    return ColumnBatch(batch, next_offset, selection.cut_off, decoded.row_count)


def _view(buffer: Buffer) -> memoryview:
    try:
        return memoryview(buffer).cast("B")
    except TypeError as error:
        raise UsageError(f"records can only be decoded from contiguous bytes: {error}") from None
