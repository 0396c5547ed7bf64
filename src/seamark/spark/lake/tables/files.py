"""Parquet files of a lake, written by the task that has the rows, under names that nothing else uses.

A file counts only once a manifest names it, so a task may fail, be killed or run twice: what it left is never read and
the next run removes it. Each file is on disk before it is reported. Rows are spread over the days of their time; the
number of files held open is bounded, whatever the clocks say.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from seamark.fsync import sync_directory
from seamark.spark.lake.tables.manifest import File
from seamark.spark.lake.tables.schemas import file_schema

# A history of more days than this is written with some of its files closed and begun anew.
_MOST_OPEN = 32
# Large row groups cost memory while they are filled, small ones cost reading.
_ROW_GROUP = 1 << 18
_PER_DAY = 86_400_000
# The first day, for times that are missing or that no calendar holds; the last day that Spark can show.
_NO_DAY = 0
_LAST_DAY = 2_932_896


@dataclass(slots=True)
class _Open:
    path: Path
    writer: pq.ParquetWriter
    rows: int = 0
    pending: list[pa.Table] | None = None
    waiting: int = 0


class LakeFiles:
    """The files that one task writes; ``finish`` closes them and says what was written."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        self._open: dict[tuple[str, int | None, int | None], _Open] = {}
        self._written: list[tuple[str, File]] = []

    def add(self, table: str, rows: pa.Table, times_ms: Any) -> None:
        """Rows of a table whose columns are those of its files; ``times_ms`` are their times, one per row."""
        if not rows.num_rows:
            return
        days = days_of(times_ms)
        if (days == days[0]).all():
            self._put((table, int(days[0]), None), rows)
            return
        for day in np.unique(days):
            self._put((table, int(day), None), rows.filter(pa.array(days == day)))

    def add_days(self, table: str, rows: pa.RecordBatch) -> None:
        """Rows that have their ``day`` as the last column."""
        days = np.asarray(rows.column("day").cast(pa.int32()).fill_null(_NO_DAY), np.int64)
        told = pa.Table.from_batches([rows]).drop_columns(["day"])
        # Spark's times are microseconds; what is below a millisecond is cut off.
        self.add(table, told.cast(file_schema(table), safe=False), days * _PER_DAY)

    def add_state(self, table: str, rows: pa.Table, part: int) -> None:
        """The whole state of one partition; it is reported even if it has no rows, to take the place of the last."""
        if rows.num_rows:
            self._put((table, None, part), rows)
        else:
            self._written.append((table, File("", 0, 0, part)))

    def finish(self) -> Iterator[tuple[str, File]]:
        for key in list(self._open):
            self._close(key)
        yield from self._written
        self._written = []

    def _put(self, key: tuple[str, int | None, int | None], rows: pa.Table) -> None:
        opened = self._open.get(key)
        if opened is None:
            while len(self._open) >= _MOST_OPEN:
                self._close(next(iter(self._open)))
            opened = self._open[key] = self._begin(key)
        assert opened.pending is not None
        opened.pending.append(rows)
        opened.waiting += rows.num_rows
        if opened.waiting >= _ROW_GROUP:
            _flush(opened)

    def _begin(self, key: tuple[str, int | None, int | None]) -> _Open:
        table, day, _ = key
        directory = self._root / table
        if day is not None:
            directory /= f"day={np.datetime64(day, 'D')}"
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{uuid.uuid4().hex}.parquet"
        return _Open(path, pq.ParquetWriter(path, file_schema(table), **_writing(table)), pending=[])

    def _close(self, key: tuple[str, int | None, int | None]) -> None:
        opened = self._open.pop(key)
        _flush(opened)
        opened.writer.close()
        sync_file(opened.path)
        sync_directory(opened.path.parent)
        path = opened.path.relative_to(self._root).as_posix()
        self._written.append((key[0], File(path, opened.rows, opened.path.stat().st_size, key[2])))


@cache
def _writing(table: str) -> dict[str, Any]:
    """How columns are stored: offsets and times as differences, names by dictionary; half the time, a tenth the size.

    Spark reads what the file's own types say, so Arrow's note of its schema is left out.
    """
    leaves = [leaf for field in file_schema(table) for leaf in _leaves(field.name, field.type)]
    differences = [name for name, kind in leaves if pa.types.is_int64(kind) or pa.types.is_timestamp(kind)]
    names = [name for name, kind in leaves if pa.types.is_string(kind) or pa.types.is_int32(kind)]
    return {
        "compression": "zstd", "compression_level": 1, "store_schema": False, "use_dictionary": names or False,
        "column_encoding": dict.fromkeys(differences, "DELTA_BINARY_PACKED"),
    }  # fmt: skip


def _leaves(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Columns as Parquet has them, with their paths."""
    if pa.types.is_list(kind):
        yield from _leaves(f"{name}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from _leaves(f"{name}.{kind.field(place).name}", kind.field(place).type)
    else:
        yield name, kind


def days_of(times_ms: Any) -> Any:
    """The day of each time, counted from 1970; times that no calendar holds are of the first."""
    days = np.asarray(times_ms, np.int64) // _PER_DAY
    return np.where((days < 0) | (days > _LAST_DAY), _NO_DAY, days)


def times(column_ms: Any, is_null: Any = None) -> pa.Array:
    """Milliseconds as the lake's timestamps; what no calendar holds is null."""
    column = np.ascontiguousarray(column_ms, np.int64)
    outside = (column < 0) | (column >= (_LAST_DAY + 1) * _PER_DAY)
    if is_null is not None:
        outside |= is_null
    return pa.array(column, pa.int64(), mask=outside).cast(pa.timestamp("ms", tz="UTC"))


def sync_file(path: Path) -> None:
    """Wait until the file's bytes are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush(opened: _Open) -> None:
    if opened.pending:
        table = pa.concat_tables(opened.pending)
        opened.writer.write_table(table, row_group_size=_ROW_GROUP)
        opened.rows += table.num_rows
    opened.pending = []
    opened.waiting = 0
