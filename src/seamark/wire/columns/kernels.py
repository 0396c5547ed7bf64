"""The loops that numba compiles: records of many batches into column buffers, their headers into a list's children.

Invariant: no byte is read or written at a place that was not compared with a limit first, whatever the source holds.
numba does no checking of its own here, so a missing comparison would be a crash and not an exception. A kernel returns
OK or an error code and leaves field number, position and the offending number in ``state``.

Everything a kernel refers to stands in this file, because numba's cache on disk notices changes of this file only.
Kernels use explicit loops and two small intrinsics: slices and array expressions would multiply the time to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

# Error codes. Those of a varint are negative, so that they can stand in for a position.
OK, ENDS_IN_VARINT, LONG_VARINT, WIDE_VARINT, NEGATIVE, PAST_END = 0, -1, -2, -3, -4, -5
EMPTY_RECORD, LEFT_OVER, OFFSET_ORDER, OFFSET_BEYOND, TIMESTAMP_RANGE, NOT_UTF8, CHANGED = -6, -7, -8, -9, -10, -11, -12
MANY_HEADERS = -13

# Field numbers of errors.
F_LENGTH, F_ATTRIBUTES, F_TIMESTAMP, F_OFFSET, F_KEY, F_VALUE = range(6)
F_HEADER_COUNT, F_HEADER_KEY, F_HEADER_KEY_TEXT, F_HEADER_VALUE, F_RECORD, F_RECORDS = range(6, 12)

# Columns of the batch table.
B_BEGIN, B_END, B_COUNT, B_BASE_OFFSET, B_LAST_DELTA, B_BASE_TIMESTAMP, B_MAX_TIMESTAMP, B_APPEND_TIME = range(8)

# Bits of ``wanted``.
WANT_KEY, WANT_VALUE, WANT_OFFSET, WANT_TIMESTAMP, WANT_TIMESTAMP_TYPE, WANT_HEADERS = 1, 2, 4, 8, 16, 32

# Places in ``state``: what decode_records or copy_headers has written so far, then where either went wrong.
S_ROWS, S_KEY_BYTES, S_VALUE_BYTES, S_KEY_NULLS, S_VALUE_NULLS = range(5)
S_HEADERS, S_HEADER_KEY_BYTES, S_HEADER_VALUE_BYTES = range(5, 8)
H_HEADERS, H_KEY_BYTES, H_VALUE_BYTES, H_EMPTY_ROWS, H_VALUE_NULLS = range(5)
S_ERROR_FIELD, S_ERROR_POSITION, S_ERROR_NUMBER, S_ERROR_RECORD, S_ERROR_HEADER = range(8, 13)
# Then -1, or the offset of the record that decode_records stopped at.
S_STOPPED_AT, STATE_SIZE = 13, 14

_SOURCE = types.Array(types.uint8, 1, "C", readonly=True)
_BYTES = types.uint8[::1]
_INT32S = types.int32[::1]
_INT64S = types.int64[::1]
_INT64 = types.int64
_BYTES_COLUMN = (_BYTES, _INT32S, _BYTES)
_NUMBERS = (_INT64S, _INT64S, _INT32S, _INT64S, _INT32S, _INT64S)

_raw_memcpy: Any = cgutils.raw_memcpy
_Reader = Callable[[Any, int, int, int], tuple[int, int]]


def _byte_at(_: Any, array: Any, __: Any) -> tuple[Any, Any]:
    """``array[index]`` without numba's detour for negative indexes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.zext(builder.load(builder.gep(start, [arguments[1]])), arguments[1].type)

    return _INT64(array, _INT64), generate


def _copy_bytes(_: Any, target: Any, __: Any, source: Any, ___: Any, ____: Any) -> tuple[Any, Any]:
    """``memcpy`` of ``count`` bytes; the caller has compared both ranges with their limits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        origin = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        _raw_memcpy(builder, builder.gep(to, [arguments[1]]), builder.gep(origin, [arguments[3]]), arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, _INT64, source, _INT64, _INT64), generate


byte_at: Any = intrinsic(_byte_at)
copy_bytes: Any = intrinsic(_copy_bytes)


def _read_long_varint(source: Any, position: int, limit: int, max_bytes: int) -> tuple[int, int]:
    raw = 0
    shift = 0
    longest = position + max_bytes
    while position < limit and position < longest:
        byte = byte_at(source, position)
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if (max_bytes == 5 and raw >> 32) or (shift == 63 and byte > 1):
                return raw, WIDE_VARINT
            return ((raw >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(raw & 1), position
        shift += 7
    if position == longest:
        return raw, LONG_VARINT
    return raw, ENDS_IN_VARINT


read_long_varint: _Reader = register_jitable(_read_long_varint)


def _read_varint(source: Any, position: int, limit: int, max_bytes: int) -> tuple[int, int]:
    """Return the zigzag number and the position behind it, or a meaningless number and an error code."""
    # Nearly all have one or two bytes; only this part is small enough to stand at every place that reads one.
    if limit - position >= 2:
        low = byte_at(source, position)
        if low < 0x80:
            return (low >> 1) ^ -(low & 1), position + 1
        high = byte_at(source, position + 1)
        if high < 0x80:
            low += (high << 7) - 0x80
            return (low >> 1) ^ -(low & 1), position + 2
    return read_long_varint(source, position, limit, max_bytes)


read_varint: _Reader = register_jitable(_read_varint)


def _read_length(source: Any, position: int, limit: int, least: int) -> tuple[int, int]:
    """As ``read_varint``, for the length of what follows up to ``limit``; ``least`` is -1 where null is allowed."""
    length, position = read_varint(source, position, limit, 5)
    if position < 0:
        return length, position
    if length < least:
        return length, NEGATIVE
    if length > limit - position:
        return length, PAST_END
    return length, position


read_length: _Reader = register_jitable(_read_length)


def _fail(state: Any, code: int, field: int, position: int, number: int) -> int:
    state[S_ERROR_FIELD] = field
    state[S_ERROR_POSITION] = position
    state[S_ERROR_NUMBER] = number
    return code


def _is_utf8(source: Any, position: int, end: int) -> bool:
    while position < end:
        lead = byte_at(source, position)
        if lead < 0x80:
            position += 1
            continue
        # The range of the second byte keeps out overlong forms, surrogates and what lies beyond U+10FFFF.
        low = 0x80
        high = 0xBF
        if lead < 0xC2 or lead > 0xF4:
            return False
        if lead < 0xE0:
            more = 1
        elif lead < 0xF0:
            more = 2
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                high = 0x9F
        else:
            more = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                high = 0x8F
        if more >= end - position:
            return False
        byte = byte_at(source, position + 1)
        if byte < low or byte > high:
            return False
        for index in range(position + 2, position + 1 + more):
            byte = byte_at(source, index)
            if byte < 0x80 or byte > 0xBF:
                return False
        position += 1 + more
    return True


fail: Callable[[Any, int, int, int, int], int] = register_jitable(_fail)
is_utf8: Callable[[Any, int, int], bool] = register_jitable(_is_utf8)

DECODE_RECORDS = _INT64(_SOURCE, types.int64[:, ::1], *[_INT64] * 6, *_BYTES_COLUMN * 2, *_NUMBERS)


def decode_records(
    source: Any,
    batches: Any,
    wanted: int,
    start: int,
    last: int,
    ticks: int,
    max_headers: int,
    stop_rows: int,
    key_bytes: Any,
    key_ends: Any,
    key_valid: Any,
    value_bytes: Any,
    value_ends: Any,
    value_valid: Any,
    offsets: Any,
    timestamps: Any,
    timestamp_types: Any,
    header_positions: Any,
    header_counts: Any,
    state: Any,
) -> int:
    """Check every record of ``batches`` and append those with ``start`` <= offset <= ``last`` behind the rows in
    ``state``.

    The caller has made room for as many rows as the batches count, or for ``stop_rows`` if that is less, and for all
    their bytes in the key and in the value column; lengths are checked against what is left of the batch, so neither
    can be exceeded. It ends at the record behind ``stop_rows`` rows or headers, and leaves that record's offset in
    ``state``. Timestamps are multiplied by ``ticks``. More than ``max_headers`` in a record are refused.
    """
    rows = state[S_ROWS]
    key_at = state[S_KEY_BYTES]
    value_at = state[S_VALUE_BYTES]
    headers = state[S_HEADERS]
    header_key_bytes = state[S_HEADER_KEY_BYTES]
    header_value_bytes = state[S_HEADER_VALUE_BYTES]
    latest = 0x7FFF_FFFF_FFFF_FFFF // ticks
    earliest = -latest
    if ticks == 1:
        earliest -= 1
    for batch in range(batches.shape[0]):
        position = batches[batch, B_BEGIN]
        limit = batches[batch, B_END]
        base_offset = batches[batch, B_BASE_OFFSET]
        last_delta = batches[batch, B_LAST_DELTA]
        base_timestamp = batches[batch, B_BASE_TIMESTAMP]
        max_timestamp = batches[batch, B_MAX_TIMESTAMP]
        append_time = batches[batch, B_APPEND_TIME]
        previous_delta = -1
        for record in range(batches[batch, B_COUNT]):
            state[S_ERROR_RECORD] = record
            field_at = position
            number, position = read_length(source, position, limit, 0)
            if position < 0:
                return fail(state, position, F_LENGTH, field_at, number)
            end = position + number
            if number < 1:
                return fail(state, EMPTY_RECORD, F_ATTRIBUTES, position, number)
            position += 1

            field_at = position
            number, position = read_varint(source, position, end, 10)
            if position < 0:
                return fail(state, position, F_TIMESTAMP, field_at, number)
            timestamp = base_timestamp + number
            # The sum of two numbers of one sign has the other sign when it does not fit.
            if ((base_timestamp ^ timestamp) & (number ^ timestamp)) < 0:
                return fail(state, TIMESTAMP_RANGE, F_TIMESTAMP, field_at, number)
            if append_time:
                timestamp = max_timestamp
            if wanted & WANT_TIMESTAMP and (timestamp > latest or timestamp < earliest):
                return fail(state, TIMESTAMP_RANGE, F_TIMESTAMP, field_at, number)

            field_at = position
            number, position = read_varint(source, position, end, 5)
            if position < 0:
                return fail(state, position, F_OFFSET, field_at, number)
            if number <= previous_delta:
                return fail(state, OFFSET_ORDER, F_OFFSET, field_at, number)
            if number > last_delta:
                return fail(state, OFFSET_BEYOND, F_OFFSET, field_at, number)
            previous_delta = number
            offset = base_offset + number
            kept = start <= offset <= last
            if kept and (rows >= stop_rows or headers > stop_rows):
                state[S_STOPPED_AT] = offset
                break

            field_at = position
            key_length, position = read_length(source, position, end, -1)
            if position < 0:
                return fail(state, position, F_KEY, field_at, key_length)
            key_from = position
            if key_length > 0:
                position += key_length

            field_at = position
            value_length, position = read_length(source, position, end, -1)
            if position < 0:
                return fail(state, position, F_VALUE, field_at, value_length)
            value_from = position
            if value_length > 0:
                position += value_length

            field_at = position
            header_count, position = read_varint(source, position, end, 5)
            if position < 0:
                return fail(state, position, F_HEADER_COUNT, field_at, header_count)
            if header_count < 0:
                return fail(state, NEGATIVE, F_HEADER_COUNT, field_at, header_count)
            # A header takes two bytes at least.
            if header_count > (end - position) >> 1:
                return fail(state, PAST_END, F_HEADER_COUNT, field_at, header_count)
            if header_count > max_headers:
                return fail(state, MANY_HEADERS, F_HEADER_COUNT, field_at, header_count)
            headers_from = position
            for header in range(header_count):
                state[S_ERROR_HEADER] = header
                field_at = position
                number, position = read_length(source, position, end, 0)
                if position < 0:
                    return fail(state, position, F_HEADER_KEY, field_at, number)
                if not is_utf8(source, position, position + number):
                    return fail(state, NOT_UTF8, F_HEADER_KEY_TEXT, position, number)
                position += number
                if kept:
                    header_key_bytes += number
                field_at = position
                number, position = read_length(source, position, end, -1)
                if position < 0:
                    return fail(state, position, F_HEADER_VALUE, field_at, number)
                if number > 0:
                    position += number
                    if kept:
                        header_value_bytes += number
            if position != end:
                return fail(state, LEFT_OVER, F_RECORD, position, end - position)

            if kept:
                if wanted & WANT_KEY:
                    if key_length > 0:
                        copy_bytes(key_bytes, key_at, source, key_from, key_length)
                        key_at += key_length
                    elif key_length < 0:
                        state[S_KEY_NULLS] += 1
                        key_valid[rows >> 3] &= ~(1 << (rows & 7))
                    key_ends[rows + 1] = key_at
                if wanted & WANT_VALUE:
                    if value_length > 0:
                        copy_bytes(value_bytes, value_at, source, value_from, value_length)
                        value_at += value_length
                    elif value_length < 0:
                        state[S_VALUE_NULLS] += 1
                        value_valid[rows >> 3] &= ~(1 << (rows & 7))
                    value_ends[rows + 1] = value_at
                if wanted & WANT_OFFSET:
                    offsets[rows] = offset
                if wanted & WANT_TIMESTAMP:
                    timestamps[rows] = timestamp * ticks
                if wanted & WANT_TIMESTAMP_TYPE:
                    timestamp_types[rows] = append_time
                if wanted & WANT_HEADERS:
                    header_positions[rows] = headers_from
                    header_counts[rows] = header_count
                    headers += header_count
                rows += 1
        if state[S_STOPPED_AT] >= 0:
            break
        if position != limit:
            return fail(state, LEFT_OVER, F_RECORDS, position, limit - position)
    state[S_ROWS] = rows
    state[S_KEY_BYTES] = key_at
    state[S_VALUE_BYTES] = value_at
    state[S_HEADERS] = headers
    state[S_HEADER_KEY_BYTES] = header_key_bytes
    state[S_HEADER_VALUE_BYTES] = header_value_bytes
    return OK


COPY_HEADERS = _INT64(
    _SOURCE, _INT64, _INT64, _INT64S, _INT32S, _INT32S, _BYTES, _BYTES, _INT32S, *_BYTES_COLUMN, _INT64S
)


def copy_headers(
    source: Any,
    first_row: int,
    end_row: int,
    header_positions: Any,
    header_counts: Any,
    list_ends: Any,
    list_valid: Any,
    key_bytes: Any,
    key_ends: Any,
    value_bytes: Any,
    value_ends: Any,
    value_valid: Any,
    state: Any,
) -> int:
    """Copy the headers of the rows that ``decode_records`` found in ``source`` into buffers of exactly the size it
    counted.

    Lengths are read a second time and compared with both ends again: another thread may have written to the buffer
    meanwhile.
    """
    headers = state[H_HEADERS]
    key_at = state[H_KEY_BYTES]
    value_at = state[H_VALUE_BYTES]
    limit = source.shape[0]
    for row in range(first_row, end_row):
        position = header_positions[row]
        count = header_counts[row]
        if count == 0:
            state[H_EMPTY_ROWS] += 1
            list_valid[row >> 3] &= ~(1 << (row & 7))
        for _ in range(count):
            field_at = position
            number, position = read_length(source, position, limit, 0)
            if position < 0 or number > key_bytes.shape[0] - key_at:
                return fail(state, CHANGED, F_HEADER_KEY, field_at, number)
            copy_bytes(key_bytes, key_at, source, position, number)
            key_at += number
            position += number
            key_ends[headers + 1] = key_at

            field_at = position
            number, position = read_length(source, position, limit, -1)
            if position < 0 or number > value_bytes.shape[0] - value_at:
                return fail(state, CHANGED, F_HEADER_VALUE, field_at, number)
            if number > 0:
                copy_bytes(value_bytes, value_at, source, position, number)
                value_at += number
                position += number
            elif number < 0:
                state[H_VALUE_NULLS] += 1
                value_valid[headers >> 3] &= ~(1 << (headers & 7))
            headers += 1
            value_ends[headers] = value_at
        list_ends[row + 1] = headers
    state[H_HEADERS] = headers
    state[H_KEY_BYTES] = key_at
    state[H_VALUE_BYTES] = value_at
    return OK
