"""A producer's records become bytes: all at once when their batch is sent, by columns where the records allow it.

Adding a record to a batch must be cheap, so a producer only collects keys, values and times; here they are written with
offsets 0, 1, 2, … in the batch. Records that differ only in their contents, without headers
and nulls, are written by whole columns, run by run of equal times; all others one by one. Both write the same bytes.

Until then a record counts with ``record_bound`` bytes, which is never less than it will take.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import add

from seamark.wire.records.varints import encode_varint, small_varints

Headers = Sequence[tuple[str, bytes | None]]

_NULL = encode_varint(-1)
# A varint of two bytes holds lengths, places and times on this side of it; nearly every record is made of those.
TWO_BYTES = 8192
_THREE_BYTES = 1 << 20
# Length, attributes, time, place, two lengths and no headers, all in two bytes at most.
SMALL_OVERHEAD = 12
# The same with every number as long as it can be: a time has ten bytes, the others five.
MAX_RECORD_OVERHEAD = 36
# Content below this makes a record whose own length is written in two bytes.
SMALL_CONTENT = TWO_BYTES - SMALL_OVERHEAD - 1
# A batch of 64 KiB has fewer records than this, if they are worth batching.
_TABLE_ROWS = 2048
# Making a table takes as long as writing some thousand records without one: only what comes again is worth it.
_TABLE_AFTER_RUNS = 16
_TABLE_RUN = 128
_seen_runs: Counter[tuple[int, bytes]] = Counter()
_MAX_SEEN = 4096
# Sizes whose pieces are kept; records in their thousands of different sizes are large, and take longer anyway.
_MAX_PIECES = 8192


def record_bound(content_bytes: int, place: int, elapsed_ms: int) -> int:
    """At least as many bytes as the record takes; ``content_bytes`` are those of key, value and encoded headers."""
    if content_bytes < SMALL_CONTENT and place < _THREE_BYTES and -TWO_BYTES <= elapsed_ms < TWO_BYTES:
        return content_bytes + (SMALL_OVERHEAD if place < TWO_BYTES else SMALL_OVERHEAD + 1)
    return content_bytes + MAX_RECORD_OVERHEAD


class Values:
    """Values without keys that are sent together, with what batches must know of their lengths."""

    __slots__ = ("_ends", "_longest", "_shortest", "each", "values")

    def __init__(self, values: list[bytes]) -> None:
        self.values = values
        sizes = list(map(len, values))
        # The length of all of them, if they have one.
        self.each = sizes[0] if sizes and sizes.count(sizes[0]) == len(sizes) else None
        self._longest = max(sizes, default=0) if self.each is None else self.each
        self._shortest = min(sizes, default=0) if self.each is None else self.each
        # Where each value would begin if they stood one behind the other, and where the last would end.
        self._ends = None if self.each is not None else list(accumulate(sizes, initial=0))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def longest(self) -> int:
        return self._longest

    def fitting(self, start: int, room: int, first_place: int, elapsed_ms: int) -> tuple[int, int]:
        """How many from ``start`` on fit into so many bytes, one at least, and how many bytes they take at most."""
        left = len(self.values) - start
        # There are never more places than this.
        last_place = first_place + max(1, min(left, room // (self._shortest + SMALL_OVERHEAD)))
        overhead = record_bound(self._longest, last_place, elapsed_ms) - self._longest
        if self._ends is None:
            count = max(1, min(left, room // (self._longest + overhead)))
            return count, count * (self._longest + overhead)
        ends, begin = self._ends, self._ends[start]
        most = range(1, min(left, room // overhead) + 1)
        count = max(1, bisect_right(most, room, key=lambda count: ends[start + count] - begin + count * overhead))
        return count, ends[start + count] - begin + count * overhead


def headers_size(headers: Headers) -> int:
    """An upper bound for the encoded headers, their count not included."""
    return sum(10 + 4 * len(name) + (0 if value is None else len(value)) for name, value in headers)


def encode_each(
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
    headers: Mapping[int, bytes],
    timestamps: Sequence[int],
    base_timestamp_ms: int,
) -> list[bytes]:
    """Any records, one by one."""
    small = small_varints()
    limit = len(small)
    parts: list[bytes] = []
    for place, value in enumerate(values):
        delta = timestamps[place] - base_timestamp_ms
        elapsed = small[delta] if 0 <= delta < limit else encode_varint(delta)
        index = small[place] if place < limit else encode_varint(place)
        key = None if keys is None else keys[place]
        key_size = _NULL if key is None else encode_varint(len(key))
        value_size = _NULL if value is None else encode_varint(len(value))
        tail = headers.get(place, b"\x00")
        body = (b"\x00", elapsed, index, key_size, key or b"", value_size, value or b"", tail)
        parts.append(encode_varint(sum(map(len, body))))
        parts += body
    return parts


def encode_columns(
    keys: Sequence[bytes] | None,
    values: Sequence[bytes],
    value_size: int | None,
    timestamps: Sequence[int],
    base_timestamp_ms: int,
) -> list[bytes]:
    """Records without headers and nulls, in the order of their times; keys for all or for none.

    ``value_size`` is the length of all values, if they are known to have one.
    """
    parts: list[bytes] = []
    start, count = 0, len(values)
    while start < count:
        stamp = timestamps[start]
        end = count if timestamps[-1] == stamp else bisect_right(timestamps, stamp, start)
        elapsed = encode_varint(stamp - base_timestamp_ms)
        while start < end:
            # Records whose places are written in equally many bytes differ only in their contents.
            width = len(encode_varint(start))
            stop = min(end, 1 << (7 * width - 1))
            run = values if (start, stop) == (0, count) else values[start:stop]
            if keys is None:
                parts += _run_of_values(run, value_size, start, width, elapsed)
            else:
                parts += _run_of_pairs(keys[start:stop], run, start, width, elapsed)
            start = stop
    return parts


def _run_of_values(
    values: Sequence[bytes], value_size: int | None, start: int, width: int, elapsed: bytes
) -> list[bytes]:
    count = len(values)
    end = start + count
    sizes = list(map(len, values)) if value_size is None else [value_size] * count
    size = sizes[0]
    is_uniform = sizes.count(size) == count
    if is_uniform and count >= _TABLE_RUN and end <= _TABLE_ROWS and _is_worth_a_table(size, elapsed):
        parts = [b""] * (2 * count + 1)
        parts[0:-1:2] = _before_values(size, elapsed)[start:end]
        parts[1::2] = values
    else:
        # Each record's last byte, the number of its headers, is written before the next one: a piece less to join.
        heads, middles = _heads(elapsed, width), _middles()
        parts = [b""] * (4 * count + 1)
        parts[0:-1:4] = map(heads.__getitem__, sizes)
        parts[1::4] = _places(start, end)
        parts[2::4] = map(middles.__getitem__, sizes)
        parts[3::4] = values
    parts[0] = parts[0][1:]
    parts[-1] = b"\x00"
    return parts


def _run_of_pairs(
    keys: Sequence[bytes], values: Sequence[bytes], start: int, width: int, elapsed: bytes
) -> list[bytes]:
    count = len(values)
    key_sizes, value_sizes = list(map(len, keys)), list(map(len, values))
    key_lengths, value_lengths = _lengths(key_sizes), _lengths(value_sizes)
    contents = list(map(add, key_sizes, value_sizes))
    lengths = list(map(add, map(len, key_lengths), map(len, value_lengths)))
    heads = _pair_heads(elapsed, width)
    parts = [b""] * (6 * count + 1)
    parts[0:-1:6] = map(heads.__getitem__, map(add, contents, lengths))
    parts[1::6] = _places(start, start + count)
    parts[2::6] = key_lengths
    parts[3::6] = keys
    parts[4::6] = value_lengths
    parts[5::6] = values
    parts[0] = parts[0][1:]
    parts[-1] = b"\x00"
    return parts


def _lengths(sizes: list[int]) -> list[bytes]:
    small = small_varints()
    if max(sizes) < len(small):
        return list(map(small.__getitem__, sizes))
    return list(map(encode_varint, sizes))


class _Pieces(dict[int, bytes]):
    """Pieces of records by a size, made when they are first needed; few sizes are needed often."""

    def __init__(self, make: Callable[[int], bytes]) -> None:
        self._make = make

    def __missing__(self, size: int) -> bytes:
        if len(self) >= _MAX_PIECES:
            self.clear()
        made = self[size] = self._make(size)
        return made


@lru_cache(maxsize=64)
def _heads(elapsed: bytes, width: int) -> _Pieces:
    """The last byte of the record before, and what stands before the place, by the length of the value."""
    fixed = 1 + len(elapsed) + width + 1 + 1
    return _Pieces(lambda size: b"\x00" + encode_varint(fixed + len(encode_varint(size)) + size) + b"\x00" + elapsed)


@lru_cache(maxsize=64)
def _pair_heads(elapsed: bytes, width: int) -> _Pieces:
    """As ``_heads``, by the bytes of key and value with their lengths."""
    fixed = 1 + len(elapsed) + width + 1
    return _Pieces(lambda size: b"\x00" + encode_varint(fixed + size) + b"\x00" + elapsed)


@lru_cache(maxsize=1)
def _middles() -> _Pieces:
    """What stands between place and value, by the length of the value."""
    return _Pieces(lambda size: _NULL + encode_varint(size))


def _places(start: int, end: int) -> Sequence[bytes]:
    small = small_varints()
    return small[start:end] if end <= len(small) else tuple(map(encode_varint, range(start, end)))


def _is_worth_a_table(size: int, elapsed: bytes) -> bool:
    # Batches are encoded on the I/O thread alone.
    if len(_seen_runs) >= _MAX_SEEN:
        _seen_runs.clear()
    _seen_runs[size, elapsed] += 1
    return _seen_runs[size, elapsed] >= _TABLE_AFTER_RUNS


@lru_cache(maxsize=32)
def _before_values(size: int, elapsed: bytes) -> tuple[bytes, ...]:
    """All that stands before the value of each record of a batch, for values of one length."""
    value_size = encode_varint(size)
    rows = []
    for place in map(encode_varint, range(_TABLE_ROWS)):
        body = 1 + len(elapsed) + len(place) + 1 + len(value_size) + size + 1
        rows.append(b"\x00" + encode_varint(body) + b"\x00" + elapsed + place + _NULL + value_size)
    return tuple(rows)
