"""A walk over the records of a batch that checks all of their structure and builds none of them.

It refuses what Kafka refuses at Produce, and finds what else a reader may stumble over (``has_false_offset``,
``oddity``), the largest timestamp, and whether a record has no key. The walk is made in slices, because one batch may
hold more records than an event loop can wait for, and it stops at bounds that no honest batch comes near.

Records of one shape in a row, equal in every length, are checked together: their bytes lie in columns with a fixed
distance, and a column is compared in one step. All others are walked one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from seamark.errors import BadLength, BadValue, DecodeError, OverLimit, TrailingBytes
from seamark.wire.records.compression import Unfolded
from seamark.wire.records.record_batch import INT64_MIN, SMALLEST_RECORD_BYTES
from seamark.wire.records.varints import read_varint, read_varlong

# Honest batches stay far below: librdkafka's have 10,000 records and the Java producer's 16 KiB unless told otherwise,
# and a megabyte of records of 100 bytes that shrank twentyfold holds 200,000.
MAX_RECORDS = 1 << 18
MAX_HEADERS = 1 << 19
MAX_HEADERS_OF_ONE_RECORD = 10_000

# Fewer records of one shape than this are quicker to walk one by one.
_LEAST_RUN = 16
# How many records are walked before the next look for a run, at first and at most.
_FIRST_GAP, _LARGEST_GAP = 4, 4096
_MOST_HEADERS_IN_RUN = 8
# Headers of one record that are walked in one go.
_MANY_HEADERS = 500
# The field that an error names whose varint says how long a record is.
RECORD_LENGTH = "length"

_ALL_BYTES = bytes(range(0x100))
_HIGH_BYTES = bytes(range(0x80, 0x100))
_EVEN_BYTES = bytes(range(0, 0x100, 2))
_LONGEST_COLUMNS = 4
# The bytes of the varints 0, 1, 2, … : the lowest byte repeats after 64 of them, the next after 8192.
_LOW_BYTES = bytes(0x80 | number << 1 & 0x7F for number in range(64))
_MIDDLE_BYTES = b"".join(bytes((0x80 | number,)) * 64 for number in range(128))
_ONLY_BYTES = bytes(range(0, 128, 2))
_SECOND_BYTES = b"".join(bytes((number,)) * 64 for number in range(128))


class RecordWalk:
    """Call ``advance`` until it returns True; then the batch is sound and the findings are complete."""

    __slots__ = (
        "_base_timestamp_ms",
        "_content",
        "_count",
        "_end",
        "_gap",
        "_headers_left",
        "_ignores_lengths",
        "_index",
        "_largest_delta",
        "_open",
        "_position",
        "_smallest_delta",
        "has_false_offset",
        "has_null_key",
        "headers_walked",
        "oddity",
    )

    def __init__(
        self,
        content: Unfolded,
        position: int,
        count: int,
        base_timestamp_ms: int,
        *,
        end: int | None = None,
        is_compressed: bool = False,
    ) -> None:
        """``content`` has the records from ``position`` to ``end``, its own if not given; ``count`` is what the batch's
        header says.
        """
        end = len(content) if end is None else end
        left = end - position
        if count * SMALLEST_RECORD_BYTES > left:
            raise BadLength("record_count", 57, f"{count} records do not fit into {left} bytes")
        if count > MAX_RECORDS:
            raise OverLimit("record_count", 57, f"{count} records in one batch, at most {MAX_RECORDS} are allowed")
        self._content = content
        self._end = end
        self._position = position
        self._count = count
        self._index = 0
        self._base_timestamp_ms = base_timestamp_ms
        self._largest_delta = INT64_MIN
        # 0 as long as no record is older than the batch's base.
        self._smallest_delta = 0
        self._headers_left = MAX_HEADERS
        self._gap = _FIRST_GAP
        # Of a record with many headers that is under way: where it begins, its length, where its headers must end,
        # and how many of them are left.
        self._open: tuple[int, int, int, int] | None = None
        self.headers_walked = 0
        self.has_null_key = False
        # Whether an offset delta is not the number of its record.
        self.has_false_offset = False
        # What Kafka does not mind and a reader may; empty if there is nothing.
        self.oddity = ""
        # Kafka does not look at the lengths of records in a compressed batch.
        self._ignores_lengths = is_compressed

    @property
    def max_timestamp_ms(self) -> int:
        return self._base_timestamp_ms + self._largest_delta

    @property
    def least_timestamp_ms(self) -> int:
        """No record is older than this."""
        return self._base_timestamp_ms + self._smallest_delta

    def advance(self, most: int) -> bool:
        """Walk on over about ``most`` records and headers; True when all was seen. Raises ``DecodeError``."""
        most += self._index + self.headers_walked
        try:
            while self._index < self._count:
                left = most - self._index - self.headers_walked
                if left <= 0:
                    return False
                if self._open is not None:
                    self._go_on_with_headers(left)
                elif not self._take_run(min(self._count, self._index + left)):
                    self._walk(min(self._count, self._index + min(left, self._gap)), self.headers_walked + left)
                    self._gap = min(2 * self._gap, _LARGEST_GAP)
        except IndexError:
            raise self._unsound("the bytes end inside it") from None
        if self._position > self._end:
            raise self._unsound("the bytes end inside it")
        if self._position != self._end:
            left = self._end - self._position
            raise TrailingBytes("records", self._position, f"{left} extra bytes after the last record")
        return True

    def one_by_one(self) -> Iterator[tuple[bool, int]]:
        """Yield for each record whether it has no key, and its timestamp; for a batch that ``advance`` has passed."""
        for number in range(self._count):
            self.has_null_key = False
            self._largest_delta = INT64_MIN
            self._walk(number + 1, MAX_HEADERS)
            if self._open is not None:
                self._go_on_with_headers(MAX_HEADERS)
            yield self.has_null_key, self.max_timestamp_ms

    def _unsound(self, reason: str) -> BadValue:
        return BadValue(f"records[{self._index}]", self._position, reason)

    def _walk(self, stop: int, headers_stop: int) -> None:
        """Walk up to the record of that number, one by one; or up to one that has brought the headers to that sum."""
        content = self._content
        end = self._end
        position = self._position
        largest, smallest = self._largest_delta, self._smallest_delta
        ignores_lengths = self._ignores_lengths
        for expected in range(self._index << 1, stop << 1, 2):
            # A varint of one or two bytes is read in place: nearly all are, and a call costs more than the rest. The
            # sign is the lowest bit: what is odd is negative, and -1 reads as 1, which moves by no byte.
            length = content[position]
            if length < 0x80:
                start = position + 1
            elif (high := content[position + 1]) < 0x80:
                length += (high << 7) - 0x80
                start = position + 2
            else:
                length, start = _read_doubled(content, position, end, RECORD_LENGTH)

            # The record's own attributes, at ``start``, have no bit with a meaning.
            delta = content[start + 1]
            if delta < 0x80:
                position = start + 2
            elif (high := content[start + 2]) < 0x80:
                delta += (high << 7) - 0x80
                position = start + 3
            else:
                delta, position = read_varlong(content, start + 1, end, "timestamp_delta")
                delta = delta << 1 if delta >= 0 else (~delta << 1) + 1
            if delta & 1:
                delta = ~(delta >> 1)
                if delta < smallest:
                    smallest = delta
                if delta > largest:
                    largest = delta
            elif delta >> 1 > largest:
                largest = delta >> 1

            delta = content[position]
            if delta < 0x80:
                position += 1
            elif (high := content[position + 1]) < 0x80:
                delta += (high << 7) - 0x80
                position += 2
            else:
                delta, position = _read_doubled(content, position, end)
            if delta != expected:
                self.has_false_offset = True

            size = content[position]
            if size < 0x80:
                position += 1 + (size >> 1)
            else:
                size, position = _read_doubled(content, position, end)
                position += size >> 1
            if size & 1:
                if size != 1:
                    position -= size >> 1
                    self.oddity = "a key has a length below -1"
                self.has_null_key = True

            size = content[position]
            if size < 0x80:
                position += 1 + (size >> 1)
            elif (high := content[position + 1]) < 0x80:
                size += (high << 7) - 0x80
                position += 2 + (size >> 1)
            else:
                size, position = _read_doubled(content, position, end)
                position += size >> 1
            if size & 1 and size != 1:
                position -= size >> 1
                self.oddity = "a value has a length below -1"

            if content[position]:
                self._index = expected >> 1
                headers_end = end if ignores_lengths else start + (length >> 1)
                count, position = self._count_headers(position, headers_end)
                if count > _MANY_HEADERS:
                    self._open = start, length, headers_end, count
                    stop = expected >> 1
                    break
                position = self._walk_headers(position, headers_end, count)
                if self.headers_walked >= headers_stop and (position - start) << 1 == length:
                    stop = (expected >> 1) + 1
                    break
            else:
                position += 1
            if (position - start) << 1 != length:
                self._index = expected >> 1
                self._note_false_length()
        self._largest_delta, self._smallest_delta = largest, smallest
        self._position = position
        self._index = stop

    def _note_false_length(self) -> None:
        if not self._ignores_lengths:
            raise self._unsound("it does not end where its length says")
        self.oddity = "a record does not end where its length says"

    def _go_on_with_headers(self, most: int) -> None:
        """Walk on in a record that has many headers."""
        assert self._open is not None
        start, length, end, left = self._open
        count = min(left, most)
        self._position = self._walk_headers(self._position, end, count)
        if count < left:
            self._open = start, length, end, left - count
            return
        self._open = None
        if (self._position - start) << 1 != length:
            self._note_false_length()
        self._index += 1

    def _count_headers(self, position: int, end: int) -> tuple[int, int]:
        """Return how many headers there are, and where the first begins."""
        content = self._content
        if end > self._end:
            raise self._unsound("it extends beyond the batch")
        count, position = read_varint(content, position, end, "header_count")
        # A header is two lengths at least.
        if not 0 <= count * 2 <= end - position:
            raise self._unsound(f"{count} headers do not fit into {end - position} bytes")
        if count > MAX_HEADERS_OF_ONE_RECORD or count > self._headers_left:
            most = f"{MAX_HEADERS_OF_ONE_RECORD} in a record and {MAX_HEADERS} in a batch"
            raise OverLimit(f"records[{self._index}]", position, f"{count} headers, allowed are {most}")
        self._headers_left -= count
        return count, position

    def _walk_headers(self, position: int, end: int, count: int) -> int:
        content = self._content
        self.headers_walked += count
        for _ in range(count):
            size = content[position]
            position += 1
            if size & 0x81:
                size, position = read_varint(content, position - 1, end, "header_key_length")
                if size < 0:
                    raise self._unsound("a header's key has a negative length")
            else:
                size >>= 1
            key = content[position : position + size]
            position += size
            if not key.isascii():
                try:
                    key.decode()
                except UnicodeDecodeError:
                    self.oddity = "a header's key is not UTF-8"
            size = content[position]
            position += 1
            if size == 1:
                continue
            if size & 0x81:
                size, position = read_varint(content, position - 1, end, "header_value_length")
                if size < 0:
                    self.oddity = "a header's value has a length below -1"
                    continue
                position += size
            else:
                position += size >> 1
        return position

    # -- records of one shape

    def _take_run(self, stop: int) -> bool:
        """Take the records in a row that have the shape of the next one; False when there are too few of them."""
        try:
            return self._find_run(stop)
        except (DecodeError, IndexError):
            # Unsound, or written in an unusual way: to be told by the walk one by one.
            return False

    def _find_run(self, stop: int) -> bool:
        content = self._content
        begin, first = self._position, self._index
        size = self._end
        if size - begin < 2 * SMALLEST_RECORD_BYTES:
            return False
        length, start = _read_short(content, begin)
        stride = start - begin + length
        # The next record must at least begin alike.
        if length < SMALLEST_RECORD_BYTES - 1 or content[begin + stride : start + stride] != content[begin:start]:
            return False
        time_end = _behind_varint(content, start + 1)
        # An offset delta has more bytes from these records on.
        width = 1 if first < 1 << 6 else 2 if first < 1 << 13 else 3
        lengths = self._lengths(time_end + width, begin + stride)
        most = min(stop - first, (size - begin) // stride, (1 << 7 * width - 1) - first)
        if most < _LEAST_RUN or lengths is None or time_end - start - 1 > _LONGEST_COLUMNS:
            return False
        has_null_key, header_count, places = lengths
        if header_count:
            most = min(most, self._headers_left // header_count)
        # A column is the same byte of each record, up to the last of them.
        reach = (most - 1) * stride + 1
        # All that decides where what lies is as in the first of them.
        for position in (*range(begin, start), *places):
            column = content[position : position + reach : stride]
            if column.count(content[position]) != most:
                most = len(column) - len(column.lstrip(column[:1]))
                reach = (most - 1) * stride + 1
        for number in range(width):
            position = time_end + number
            most = _equal_bytes(
                content[position : position + reach : stride], _varint_bytes(number, width, first, most)
            )
            reach = (most - 1) * stride + 1
        times = [content[position : position + reach : stride] for position in range(start + 1, time_end)]
        if most < _LEAST_RUN or not _are_positive_varints(times):
            return False
        largest = _largest(times)
        self._largest_delta = max(self._largest_delta, read_varlong(largest, 0, len(largest), "timestamp_delta")[0])
        self.has_null_key |= has_null_key
        self._headers_left -= most * header_count
        self.headers_walked += most * header_count
        self._position = begin + most * stride
        self._index = first + most
        self._gap = _FIRST_GAP
        return True

    def _lengths(self, position: int, end: int) -> tuple[bool, int, list[int]] | None:
        """Read the rest of a record, from its key to its ``end``.

        Return whether the key is null, how many headers there are, and the places of all bytes that must be the same
        in a record of the same shape: lengths, and the keys of headers. None for a shape that is unusual or unsound.
        """
        content = self._content
        places: list[int] = []
        sizes = []
        for _ in range(2):
            size, behind = _read_short(content, position)
            sizes.append(size)
            places += range(position, behind)
            position = behind + max(size, 0)
        if min(sizes) < -1 or position >= end or content[position] > 2 * _MOST_HEADERS_IN_RUN or content[position] & 1:
            return None
        header_count = content[position] >> 1
        places.append(position)
        position += 1
        for _ in range(header_count):
            size, behind = _read_short(content, position)
            value_at = behind + size
            if size < 0 or value_at >= end or not content[behind:value_at].isascii():
                return None
            size, behind = _read_short(content, value_at)
            if size < -1:
                return None
            places += range(position, behind)
            position = behind + max(size, 0)
        return (sizes[0] < 0, header_count, places) if position == end else None


def _read_doubled(content: Unfolded, position: int, end: int, field: str = "varint") -> tuple[int, int]:
    """Return twice the number at ``position``, one more if it is negative, and the position behind it."""
    number, position = read_varint(content, position, end, field)
    return (number << 1 if number >= 0 else (~number << 1) + 1), position


def _read_short(content: Unfolded, position: int) -> tuple[int, int]:
    """Return the number at ``position`` and the position behind it, quickly for one or two bytes."""
    byte = content[position]
    if byte < 0x80:
        return (~(byte >> 1) if byte & 1 else byte >> 1), position + 1
    high = content[position + 1]
    if high < 0x80:
        byte += (high << 7) - 0x80
        return (~(byte >> 1) if byte & 1 else byte >> 1), position + 2
    return read_varint(content, position, len(content), "length")


def _behind_varint(content: Unfolded, position: int) -> int:
    while content[position] >= 0x80:
        position += 1
    return position + 1


def _equal_bytes(one: bytes, other: bytes) -> int:
    """Return how many bytes at the start of both, which are as long, are equal."""
    low, high = 0, len(one)
    if one == other:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _varint_bytes(number: int, width: int, first: int, count: int) -> bytes:
    """Return byte ``number`` of each of ``count`` varints of ``width`` bytes, the numbers from ``first`` on."""
    if number + 1 == width:
        # The last byte has no more than the bits that are left.
        if width == 1:
            return _ONLY_BYTES[first : first + count]
        if width == 2:
            return _SECOND_BYTES[first : first + count]
        steps = range(first >> 13, (first + count - 1 >> 13) + 1)
        return b"".join(bytes((step,)) * (1 << 13) for step in steps)[first % (1 << 13) :][:count]
    pattern = _LOW_BYTES if number == 0 else _MIDDLE_BYTES
    phase = first % len(pattern)
    return (pattern * ((phase + count) // len(pattern) + 1))[phase : phase + count]


def _are_positive_varints(columns: list[bytes]) -> bool:
    """Are these the bytes of varints, lowest first, that all have as many bytes and none a sign?"""
    return (
        columns[-1].isascii()
        and not any(column.translate(None, _HIGH_BYTES) for column in columns[:-1])
        and not columns[0].translate(None, _EVEN_BYTES)
    )


def _largest(columns: list[bytes]) -> bytes:
    """Return the varint with the largest value among those whose bytes are in the columns, lowest first."""
    highest = columns[-1]
    # Times mostly rise: what is larger than the last is rarely there, and sought among few.
    top = highest[-1]
    larger = highest.translate(None, _ALL_BYTES[: top + 1])
    if larger:
        top = max(larger)
    if len(columns) == 1:
        return bytes((top,))
    first = highest.index(top)
    if highest.count(top) == len(highest) - first:
        return _largest([column[first:] for column in columns[:-1]]) + bytes((top,))
    return bytes(max(zip(*reversed(columns), strict=True)))[::-1]
