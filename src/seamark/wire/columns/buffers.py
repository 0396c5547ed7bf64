"""Room for the columns of one call: made before the kernels run, filled by them, handed to Arrow without a copy.

The sizes of keys and values are not known before the records are read, but a column never has more bytes than the
records it comes from, so room for that many is always enough. What turned out to be less than half full is copied to
its size, so that a batch of small keys does not hold on to large memory. Memory comes from Arrow's pool: it keeps freed
pages at hand, and fresh ones cost three times as much as decoding into them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from seamark.errors import DecodeError
from seamark.wire.columns import compiler, kernels
from seamark.wire.columns.batches import Section, Selection, in_buffer
from seamark.wire.columns.errors import kernel_error

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


def _room(count: int, kind: type[Any]) -> Any:
    """An array of ``count`` numbers in Arrow's memory. Its content is whatever was there before."""
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(kind).itemsize), kind)


def _trimmed(array: Any, used: int) -> Any:
    """The first ``used`` numbers as an Arrow buffer."""
    if used * 2 >= len(array):
        return pa.py_buffer(array[:used])
    exact = _room(used, array.dtype.type)
    exact[:] = array[:used]
    return pa.py_buffer(exact)


class _Bytes:
    """A nullable column of byte strings: one buffer of bytes, where each string ends in it, and a bit for each that is
    there.

    The bits start as ones and a kernel clears those of nulls.
    """

    def __init__(self, rows: int, size: int) -> None:
        self.content = _room(size, np.uint8)
        self.ends = _room(rows + 1, np.int32)
        self.ends[0] = 0
        self.valid = _all_valid(rows)

    def array(self, kind: pa.DataType, rows: int, size: int, nulls: int) -> pa.Array:
        valid = pa.py_buffer(self.valid) if nulls else None
        return pa.Array.from_buffers(
            kind, rows, [valid, _trimmed(self.ends, rows + 1), _trimmed(self.content, size)], nulls
        )


def _all_valid(rows: int) -> Any:
    bits = _room(rows + 7 >> 3, np.uint8)
    bits.fill(0xFF)
    return bits


class ColumnBuffers:
    """The columns that ``wanted`` names, of the records that ``selection`` chose."""

    def __init__(self, wanted: int, selection: Selection) -> None:
        rows = min(selection.row_count, selection.stop_rows)
        # Nothing is taken off for the other fields of the records: a batch that lies about its count may have one key
        # as long as itself, and the lie is found only behind it.
        size = selection.record_bytes

        def column(want: int, kind: type[Any]) -> Any:
            return _room(rows if wanted & want else 0, kind)

        def bytes_column(want: int) -> _Bytes:
            return _Bytes(rows, size) if wanted & want else _Bytes(0, 0)

        self._wanted = wanted
        self._selection = selection
        self._state = np.zeros(kernels.STATE_SIZE, np.int64)
        self._state[kernels.S_STOPPED_AT] = -1
        self._keys = bytes_column(kernels.WANT_KEY)
        self._values = bytes_column(kernels.WANT_VALUE)
        self._offsets = column(kernels.WANT_OFFSET, np.int64)
        self._timestamps = column(kernels.WANT_TIMESTAMP, np.int64)
        self._timestamp_types = column(kernels.WANT_TIMESTAMP_TYPE, np.int32)
        self._header_positions = column(kernels.WANT_HEADERS, np.int64)
        self._header_counts = column(kernels.WANT_HEADERS, np.int32)
        # Where the rows of each section end; only headers, which are read again, need it.
        self._section_ends: list[int] = []

    @property
    def row_count(self) -> int:
        return int(self._state[kernels.S_ROWS])

    @property
    def stopped_at(self) -> int | None:
        """The offset of the first record that was left for the next call."""
        offset = int(self._state[kernels.S_STOPPED_AT])
        return None if offset < 0 else offset

    def fill(self, ticks: int) -> None:
        """Decode every section; ``ticks`` are the timestamp's in a millisecond."""
        if not self._selection.sections:
            return
        decode = compiler.decode_records()
        state = self._state
        for section in self._selection.sections:
            code = decode(
                _source(section),
                np.array(section.table, np.int64),
                self._wanted,
                self._selection.first_offset,
                self._selection.last_offset,
                ticks,
                self._selection.max_headers,
                self._selection.stop_rows,
                self._keys.content,
                self._keys.ends,
                self._keys.valid,
                self._values.content,
                self._values.ends,
                self._values.valid,
                self._offsets,
                self._timestamps,
                self._timestamp_types,
                self._header_positions,
                self._header_counts,
                state,
            )
            if code != kernels.OK:
                raise self._error(code, state, section)
            self._section_ends.append(self.row_count)
            if self.stopped_at is not None:
                return

    def array(self, field: pa.Field) -> pa.Array:
        """The column as it is handed out."""
        rows = self.row_count
        state = self._state.tolist()
        name = field.name
        if name == "key":
            return self._keys.array(field.type, rows, state[kernels.S_KEY_BYTES], state[kernels.S_KEY_NULLS])
        if name == "value":
            return self._values.array(field.type, rows, state[kernels.S_VALUE_BYTES], state[kernels.S_VALUE_NULLS])
        if name == "headers":
            return self._headers(rows, state)
        numbers = {"offset": self._offsets, "timestamp": self._timestamps, "timestamp_type": self._timestamp_types}[
            name
        ]
        return pa.Array.from_buffers(field.type, rows, [None, _trimmed(numbers, rows)], 0)

    def _headers(self, rows: int, state: list[int]) -> pa.Array:
        """A null list for a record without headers, as Spark's Kafka source has it."""
        count = state[kernels.S_HEADERS]
        list_ends = _room(rows + 1, np.int32)
        list_ends[0] = 0
        list_valid = _all_valid(rows)
        keys = _Bytes(count, state[kernels.S_HEADER_KEY_BYTES])
        values = _Bytes(count, state[kernels.S_HEADER_VALUE_BYTES])
        copied = np.zeros(kernels.STATE_SIZE, np.int64)
        if rows:
            copy = compiler.copy_headers()
            first_row = 0
            for section, end_row in zip(self._selection.sections, self._section_ends, strict=False):
                code = copy(
                    _source(section),
                    first_row,
                    end_row,
                    self._header_positions,
                    self._header_counts,
                    list_ends,
                    list_valid,
                    keys.content,
                    keys.ends,
                    values.content,
                    values.ends,
                    values.valid,
                    copied,
                )
                if code != kernels.OK:
                    raise self._error(code, copied, section)
                first_row = end_row
        empty_rows, value_nulls = int(copied[kernels.H_EMPTY_ROWS]), int(copied[kernels.H_VALUE_NULLS])
        key_array = keys.array(pa.string(), count, state[kernels.S_HEADER_KEY_BYTES], 0)
        value_array = values.array(pa.binary(), count, state[kernels.S_HEADER_VALUE_BYTES], value_nulls)
        pairs = pa.StructArray.from_arrays([key_array, value_array], fields=list(HEADERS_TYPE.value_type))
        valid = pa.py_buffer(list_valid) if empty_rows else None
        return pa.Array.from_buffers(HEADERS_TYPE, rows, [valid, pa.py_buffer(list_ends)], empty_rows, children=[pairs])

    def _error(self, code: int, state: Any, section: Section) -> DecodeError:
        error = kernel_error(code, state.tolist(), section.compressed_at, self._selection.max_headers)
        return in_buffer(error, section.buffer_index) if self._selection.several_buffers else error


def _source(section: Section) -> Any:
    """The bytes as the read-only array that the kernels were compiled for."""
    source = np.frombuffer(section.content, np.uint8)
    source.flags.writeable = False
    return source
