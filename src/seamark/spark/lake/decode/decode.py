"""Batches of the offsets topic as columns of the lake's tables, as far as each record says it alone.

What depends on the records before (previous offsets, owners, completeness) is added by ``history``. Commits and
classic groups stay columns throughout; records of newer groups are few and are read one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamark.spark.lake.decode.modern import decode_modern, is_modern
from seamark.spark.lake.tables.files import times
from seamark.spark.lake.tables.schemas import file_schema
from seamark.wire.columns.offsets_columns import OffsetsColumns, decode_offsets
from seamark.wire.offsets import done_ahead

_DONE_AHEAD: pa.DataType = file_schema("commits").field("done_ahead").type
# What the text of a done-ahead map starts with; anything else need not be looked at.
_OURS = "sm"


class Records(NamedTuple):
    """Records of one partition in the order of their offsets; times are milliseconds, -1 where there is none."""

    offsets: Any
    times_ms: Any
    keys: pa.Array
    values: pa.Array

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Records:
        """From a batch as the Spark source gives it."""
        # The source's times are microseconds; where a record has none, its time is -1 ms.
        micros = np.asarray(batch.column("timestamp").cast(pa.int64()).fill_null(-1000))
        return cls(
            np.asarray(batch.column("offset"), np.int64),
            micros // 1000,
            batch.column("key"),
            batch.column("value"),
        )

    def behind(self, offset: int) -> Records:
        """Those at or beyond an offset."""
        if not len(self.offsets) or self.offsets[0] >= offset:
            return self
        first = int(np.searchsorted(self.offsets, offset))
        return Records(self.offsets[first:], self.times_ms[first:], self.keys[first:], self.values[first:])

    def decoded(self) -> OffsetsColumns:
        return decode_offsets(self.keys, self.values)


def place(rows: Any, records: Records, partition: int) -> dict[str, pa.Array]:
    """The columns that say where and when records were written."""
    return {
        "offsets_partition": pa.repeat(pa.scalar(partition, pa.int32()), len(rows)),
        "offsets_offset": pa.array(records.offsets[rows]),
        "time": times(records.times_ms[rows]),
    }


def rejects(columns: OffsetsColumns, records: Records, partition: int) -> tuple[pa.Table, Any]:
    """Rows of ``rejects`` and their times, as far as the decoder says."""
    rows = np.asarray(columns.rejects.column("row"), np.int64)
    taken = {name: columns.rejects.column(name) for name in ("reason", "key", "value")}
    made = pa.table({**place(rows, records, partition), **taken}, schema=file_schema("rejects"))
    return made, records.times_ms[rows]


def newer(columns: OffsetsColumns, records: Records, partition: int) -> dict[str, tuple[pa.Table, Any]]:
    """Rows of ``modern_groups``, ``raw_records`` and ``rejects`` from records of the newer protocols."""
    told_by_table: dict[str, list[dict[str, Any]]] = {"modern_groups": [], "raw_records": [], "rejects": []}
    rows: dict[str, list[int]] = {table: [] for table in told_by_table}
    for record in columns.newer.to_pylist():
        key, value = record["key"], record["value"]
        if not is_modern(key):
            table, told = "raw_records", {"kind": record["name"], "key": key, "value": value}
        else:
            decoded = decode_modern(key, value)
            if isinstance(decoded, str):
                table, told = "rejects", {"reason": f"{record['name']}: {decoded}", "key": key, "value": value}
            else:
                table, told = "modern_groups", {"kind": record["name"], "tombstone": value is None, **decoded._asdict()}
        told_by_table[table].append(told)
        rows[table].append(record["row"])
    made = {}
    for table, told_rows in told_by_table.items():
        where = np.asarray(rows[table], np.int64)
        told_table = pa.Table.from_pylist(told_rows, schema=_without_place(table))
        placed = place(where, records, partition)
        made[table] = (
            pa.table({**placed, **dict(zip(told_table.column_names, told_table.columns, strict=True))},
                     schema=file_schema(table)),
            records.times_ms[where],
        )  # fmt: skip
    return made


def done_ahead_column(metadata: pa.Array, offsets: Any) -> pa.Array:
    """The decoded map of each commit whose metadata is one of ours, null for the others."""
    may_be_ours = pc.fill_null(pc.starts_with(metadata, _OURS), False)
    rows = np.flatnonzero(np.asarray(may_be_ours))
    counts = np.zeros(len(metadata), np.int64)
    is_null = np.ones(len(metadata), bool)
    starts: list[int] = []
    ends: list[int] = []
    for row, text in zip(rows.tolist(), metadata.take(pa.array(rows)).to_pylist(), strict=True):
        offset = int(offsets[row])
        decoded = done_ahead.decode(text, offset) if offset >= 0 else None
        if decoded is not None:
            is_null[row] = False
            counts[row] = len(decoded.ranges)
            starts.extend(start for start, _ in decoded.ranges)
            ends.extend(end for _, end in decoded.ranges)
    if is_null.all():
        return pa.nulls(len(metadata), _DONE_AHEAD)
    flat = pa.StructArray.from_arrays(
        [pa.array(starts, pa.int64()), pa.array(ends, pa.int64())], fields=list(_DONE_AHEAD.value_type)
    )
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(bounds), flat, mask=pa.array(is_null))


def _without_place(table: str) -> pa.Schema:
    return pa.schema([field for field in file_schema(table) if field.name not in place_names()])


def place_names() -> tuple[str, ...]:
    return ("offsets_partition", "offsets_offset", "time")
