"""The four ways to write a done-ahead map as bytes; ``seamark.wire.offsets.done_ahead`` picks one and makes it text.

Behind the committed offset the offsets alternate: some not done (maybe none), some done, some not done, and so on up
to the last done one. Three forms write that as whole numbers, seven bits a byte, lowest bits first, a set top bit for
"goes on":

    r  runs     in turn: how many offsets are not done, how many are
    d  done     per number: so many offsets are not done, then one is
    h  holes    per number: so many offsets are done, then one is not
    b  bitmap   no numbers but one bit per offset, lowest bit of the first byte first: 1 is done

Runs suit a few long stretches, done a few scattered offsets, holes a few unfinished ones, the bitmap everything
mixed. A beginning of a body, cut between numbers, says the same about the lower offsets and nothing about the others:
that is how a body is shortened. Reading gives ranges, never one object per offset, and refuses what passes
``MAX_OFFSET``.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from operator import sub

from seamark.errors import BadLength, BadValue
from seamark.wire.schema.primitives import SMALL, SMALL_VARINTS, encode_unsigned_varint

# The offset behind the last done one must fit 64 bits too.
MAX_OFFSET = (1 << 63) - 2

_ONES = re.compile("1+")
_MAX_NUMBER_BYTES = 9

# Ascending starts, and the offset behind each range; no two ranges touch.
Ranges = tuple["array[int]", "array[int]"]


class Stretches:
    """The offsets behind the committed one in turn: ``gaps[i]`` not done, then ``runs[i]`` done; at least one each."""

    __slots__ = ("count", "gaps", "runs", "span")

    def __init__(self, gaps: list[int], runs: list[int]) -> None:
        self.gaps = gaps
        self.runs = runs
        self.count = sum(runs)
        self.span = sum(gaps) + self.count

    @classmethod
    def of_ranges(cls, base: int, starts: Sequence[int], stops: Sequence[int]) -> Stretches:
        return cls(list(map(sub, starts, [base + 1, *stops])), list(map(sub, stops, starts)))

    def lowest(self, how_many: int) -> Stretches:
        return self if len(self.gaps) <= how_many else Stretches(self.gaps[:how_many], self.runs[:how_many])


def runs(stretches: Stretches) -> bytes:
    numbers = [0] * (2 * len(stretches.gaps))
    numbers[0::2] = stretches.gaps
    numbers[1::2] = stretches.runs
    return _numbers_to_bytes(numbers)


def done(stretches: Stretches, limit: int) -> bytes:
    """All of it in at most ``limit`` numbers, or else about as many of the lowest offsets."""
    if stretches.count == len(stretches.runs):
        return _numbers_to_bytes(stretches.gaps[:limit])
    numbers: list[int] = []
    for gap, run in zip(stretches.gaps, stretches.runs, strict=True):
        if len(numbers) >= limit:
            break
        numbers.append(gap)
        if run > 1:
            numbers += [0] * min(run - 1, limit)
    return _numbers_to_bytes(numbers)


def holes(stretches: Stretches, limit: int) -> bytes:
    """All of it in at most ``limit`` numbers, or else about as many of the lowest offsets."""
    numbers: list[int] = []
    ended = 0
    for gap, run in zip(stretches.gaps, stretches.runs, strict=True):
        # The number before stands for the first offset of this gap.
        if gap > ended:
            numbers += [0] * min(gap - ended, limit)
        if len(numbers) >= limit:
            # The zeros may have been cut short, and then nothing may follow them.
            break
        numbers.append(run)
        ended = 1
    return _numbers_to_bytes(numbers)


def bitmap(stretches: Stretches, limit: int) -> bytes:
    """All of it in at most ``limit`` bytes, or else the lowest offsets."""
    gaps, runs = stretches.gaps, stretches.runs
    size = min(stretches.span, limit * 8)
    if size < stretches.span:
        stops = list(accumulate(map(sum, zip(gaps, runs, strict=True))))
        last = bisect_left(stops, size)
        gaps, runs = gaps[: last + 1], runs[: last + 1]
        gaps[last], runs[last] = min(gaps[last], size), min(runs[last], size)
    pieces = [b""] * (2 * len(gaps))
    pieces[0::2] = map(b"0".__mul__, gaps)
    pieces[1::2] = map(b"1".__mul__, runs)
    flags = b"".join(pieces)[:size]
    return int(flags[::-1], 2).to_bytes((size + 7) // 8, "little")


def count_of(form: str, body: bytes) -> int:
    """How many offsets a body made here says are done."""
    if form == "b":
        return int.from_bytes(body, "little").bit_count()
    if form == "d":
        return _how_many_numbers(body)
    numbers = _bytes_to_numbers(body)
    return sum(numbers if form == "h" else numbers[1::2])


def read_form(form: str, body: bytes, base: int) -> Ranges:
    """The ranges in a body; DecodeError if it is not one that is written here."""
    if not body:
        raise BadLength("body", 0, "is empty")
    if form == "b":
        ranges = _read_bitmap(body, base)
    else:
        numbers = _bytes_to_numbers(body)
        ranges = {"r": _read_runs, "d": _read_done, "h": _read_holes}[form](numbers, base)
    if not ranges[0]:
        raise BadValue("body", 0, "contains no offset")
    if ranges[1][-1] > MAX_OFFSET + 1:
        raise BadValue("body", 0, "has an offset that does not fit into 64 bits")
    return array("q", ranges[0]), array("q", ranges[1])


def cut(form: str, body: bytes, size: int) -> bytes:
    """The longest beginning of ``body`` that is a body of its own and has at most ``size`` bytes; it may be empty."""
    if form == "b":
        return body[:size].rstrip(b"\0")
    end = _number_end(body, size)
    if form == "r" and _how_many_numbers(body[:end]) % 2:
        end = _number_end(body, end - 1)
    shorter = body[:end]
    return shorter.rstrip(b"\0") if form == "h" else shorter


def cut_inside(form: str, body: bytes, size: int) -> bytes:
    """As ``cut``, but a run that does not fit whole is shortened to what does."""
    if size >= len(body) or form not in "rh":
        return cut(form, body, size)
    end = _number_end(body, size)
    is_run = form == "h" or _how_many_numbers(body[:end]) % 2 == 1
    room = size - end
    if not is_run or not room:
        return cut(form, body, size)
    # The number at `end` needs more bytes than there is room: the largest number that fits is smaller than it.
    return body[:end] + b"\xff" * (room - 1) + b"\x7f"


def _how_many_numbers(body: bytes) -> int:
    return len(body) if body.isascii() else sum(map((128).__gt__, body))


def _number_end(body: bytes, size: int) -> int:
    end = min(size, len(body))
    while end > 0 and body[end - 1] > 127:
        end -= 1
    return max(end, 0)


def _numbers_to_bytes(numbers: list[int]) -> bytes:
    try:
        encoded = bytes(numbers)
    except ValueError:
        pass
    else:
        if encoded.isascii():
            return encoded
    return b"".join([SMALL_VARINTS[number] if number < SMALL else encode_unsigned_varint(number) for number in numbers])


def _bytes_to_numbers(body: bytes) -> Sequence[int]:
    if body.isascii():
        return body
    numbers = []
    number = shift = 0
    for position, byte in enumerate(body):
        number |= (byte & 127) << shift
        if byte < 128:
            numbers.append(number)
            number = shift = 0
        else:
            shift += 7
            if shift >= 7 * _MAX_NUMBER_BYTES:
                raise BadLength("body", position, f"a number is longer than {_MAX_NUMBER_BYTES} bytes")
    if shift:
        raise BadLength("body", len(body), "ends inside a number")
    return numbers


def _read_runs(numbers: Sequence[int], base: int) -> tuple[list[int], list[int]]:
    if len(numbers) % 2:
        raise BadLength("body", 0, "has a gap without a run after it")
    if 0 in numbers[1:]:
        raise BadValue("body", 0, "has an empty run or gap")
    edges = list(accumulate(numbers, initial=base + 1))
    return edges[1::2], edges[2::2]


def _read_done(numbers: Sequence[int], base: int) -> tuple[list[int], list[int]]:
    starts: list[int] = []
    stops: list[int] = []
    position = base + 1
    for gap in numbers:
        if gap or not starts:
            stops.append(position)
            position += gap
            starts.append(position)
        position += 1
    return starts, [*stops[1:], position]


def _read_holes(numbers: Sequence[int], base: int) -> tuple[list[int], list[int]]:
    starts, stops = [], []
    position = base + 1
    for run in numbers:
        if run:
            starts.append(position)
            position += run
            stops.append(position)
        position += 1
    return starts, stops


def _read_bitmap(body: bytes, base: int) -> tuple[list[int], list[int]]:
    bits = bin(int.from_bytes(body, "little"))[:1:-1]
    first = base + 1
    spans = [match.span() for match in _ONES.finditer(bits)]
    return [first + left for left, _ in spans], [first + right for _, right in spans]
