"""The done-ahead map: which offsets beyond the committed one are done already, as text for the commit's metadata.

A consumer that works out of order commits its frontier, and with this map it need not repeat after a restart what it
had finished beyond. The map says "done" exactly for offsets that were done: offsets may have gaps, so nothing is
inferred.

    text      "sm" version form checksum body            all ASCII: brokers count characters, some tools count bytes
    version   "1"
    form      r d h b: how the body says it (see ``done_ahead_forms``); in upper case, that form deflated (RFC 1951)
    checksum  CRC-32 of the committed offset (8 bytes, big-endian), version, form and body text; 5 characters
    body      bytes in base 85 (RFC 1924's alphabet), shortest of the forms tried; nothing done ahead is the empty text

Metadata belongs to whoever wrote it. Text of another tool, of a newer version, damaged, or left behind by a tool that
moved the committed offset and kept the text (the checksum covers that offset) is refused with a reason and never
applied. Reading is bounded: at most ``MAX_LENGTH`` characters, ``MAX_BODY`` bytes after inflating, and ranges instead
of single offsets.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from base64 import b85decode, b85encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import sub
from typing import Literal, NamedTuple

from seamark.errors import DecodeError, OutOfRange
from seamark.wire.offsets import done_ahead_forms as forms
from seamark.wire.offsets.done_ahead_forms import MAX_OFFSET, Stretches

# A metadata string's length is a signed 16-bit number in the protocol.
MAX_LENGTH = 32767
# Kafka's default for offset.metadata.max.bytes.
DEFAULT_LENGTH = 4096
MAX_BODY = 1 << 16

_MAGIC = "sm"
_VERSION = "1"
_FORMS = "rdhb"
_HEAD = len(_MAGIC) + len(_VERSION) + 1 + 5
_pack_base = struct.Struct(">q").pack
# Deflate has its own cost; shorter bodies do not get it back.
_WORTH_DEFLATING = 24
# While shortening, a form other than runs is made for this many times the bytes that there is room for.
_STRETCH = 4
_PROBES = 5


class DoneAhead:
    """Offsets above ``base`` that are done. Immutable; ``in`` takes logarithmic time, iteration goes upwards."""

    __slots__ = ("_starts", "_stops", "base", "count")

    def __init__(self, base: int, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """``ranges`` are (start, stop) pairs, stop exclusive, in any order; they may touch or overlap."""
        starts: list[int] = []
        stops: list[int] = []
        for start, stop in sorted(ranges):
            if stop <= start:
                raise OutOfRange("range", (start, stop), "its stop is not greater than its start")
            if stops and start <= stops[-1]:
                stops[-1] = max(stops[-1], stop)
            else:
                starts.append(start)
                stops.append(stop)
        self._fill(base, starts, stops)

    @classmethod
    def of_offsets(cls, base: int, offsets: Iterable[int]) -> DoneAhead:
        """The map of single offsets, in any order."""
        ordered = sorted(set(offsets))
        if not ordered:
            return cls(base)
        breaks = [index for index, step in enumerate(map(sub, ordered[1:], ordered), 1) if step != 1]
        starts = [ordered[0], *(ordered[index] for index in breaks)]
        stops = [*(ordered[index - 1] + 1 for index in breaks), ordered[-1] + 1]
        return cls._of_ranges(base, starts, stops)

    @classmethod
    def _of_ranges(cls, base: int, starts: Sequence[int], stops: Sequence[int]) -> DoneAhead:
        made = cls.__new__(cls)
        made._fill(base, starts, stops)
        return made

    def _fill(self, base: int, starts: Sequence[int], stops: Sequence[int]) -> None:
        _check_base(base)
        if starts and starts[0] <= base:
            raise OutOfRange("offset", starts[0], f"is not beyond the committed offset {base}")
        if starts and stops[-1] > MAX_OFFSET + 1:
            raise OutOfRange("offset", stops[-1] - 1, "does not fit into 64 bits")
        self.base = base
        try:
            self._starts = array("q", starts)
            self._stops = array("q", stops)
        except TypeError:
            raise OutOfRange("offset", starts, "is not a list of whole numbers") from None
        self.count = sum(self._stops) - sum(self._starts)

    def below(self, offset: int) -> DoneAhead:
        """The map without ``offset`` and everything above it.

        >>> DoneAhead(4, [(6, 9), (12, 20)]).below(13)
        DoneAhead(base=4, count=4, [6-8, 12-12])
        """
        ranges = [(start, min(stop, offset)) for start, stop in self.ranges if start < offset]
        return DoneAhead(self.base, ranges)

    def _stretches(self) -> Stretches:
        return Stretches.of_ranges(self.base, self._starts, self._stops)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """(start, stop) pairs, stop exclusive, ascending; no two touch."""
        return list(zip(self._starts, self._stops, strict=True))

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._starts, offset)
        return index > 0 and offset < self._stops[index - 1]

    def __iter__(self) -> Iterator[int]:
        for start, stop in zip(self._starts, self._stops, strict=True):
            yield from range(start, stop)

    def __bool__(self) -> bool:
        return self.count > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DoneAhead):
            return NotImplemented
        return self.base == other.base and self._starts == other._starts and self._stops == other._stops

    def __hash__(self) -> int:
        return hash((self.base, self.count))

    def __repr__(self) -> str:
        shown = ", ".join(f"{start}-{stop - 1}" for start, stop in self.ranges[:8])
        more = f", … {len(self._starts) - 8} more" if len(self._starts) > 8 else ""
        return f"DoneAhead(base={self.base}, count={self.count}, [{shown}{more}])"


class Encoded(NamedTuple):
    """The text, and how many of the done offsets it says; the ``dropped`` ones are the highest."""

    text: str
    kept: int
    dropped: int


class Refusal(NamedTuple):
    """Why a text is not applied; ``kind`` is for counting, ``reason`` is a sentence."""

    kind: Literal["empty", "foreign", "newer", "damaged"]
    reason: str


def encode(base: int, done: DoneAhead | Iterable[int], max_length: int = DEFAULT_LENGTH) -> Encoded:
    """The map for the metadata of a commit of ``base``, in at most ``max_length`` characters.

    What does not fit is left out from the top, so that what is nearest to the committed offset is kept. A map that is
    left out costs repeated work, never lost work.
    """
    done_ahead = _as_map(base, done)
    if not done_ahead:
        return Encoded("", 0, 0)
    max_length = min(max_length, MAX_LENGTH)
    stretches = done_ahead._stretches()
    whole: dict[str, bytes] = {}
    if _may_fit(stretches):
        whole = _whole_bodies(stretches)
        form, body = _smallest(whole)
        if _text_length(len(body)) <= max_length:
            return Encoded(_to_text(base, form, body), done_ahead.count, 0)
    room = _room(max_length)
    form, body, kept = _longest_prefix(stretches, whole, room, min(room * _STRETCH, MAX_BODY))
    if len(body) < room // 2:
        # A pattern so regular that what was tried of it deflates to nearly nothing.
        form, body, kept = _longest_prefix(stretches, whole, room, MAX_BODY)
    return Encoded(_to_text(base, form, body) if kept else "", kept, done_ahead.count - kept)


def encoded_size(base: int, done: DoneAhead | Iterable[int]) -> int:
    """How many characters ``encode`` needs for all of it, without a limit."""
    done_ahead = _as_map(base, done)
    if not done_ahead:
        return 0
    return _text_length(len(_smallest(_whole_bodies(done_ahead._stretches()))[1]))


def decode(text: str | None, base: int) -> DoneAhead | None:
    """The map in the metadata of a commit of ``base``; None if there is none that may be applied."""
    done = read(text, base)
    return done if isinstance(done, DoneAhead) else None


def read(text: str | None, base: int) -> DoneAhead | Refusal:
    """As ``decode``, with the reason where there is no map."""
    # librdkafka ends the metadata of a commit with a null character.
    text = text.removesuffix("\0") if text else ""
    if not text:
        return Refusal("empty", "the commit has no metadata")
    if not text.startswith(_MAGIC) or len(text) <= _HEAD:
        return Refusal("foreign", "the metadata was not written by a done-ahead map")
    version, form = text[2], text[3]
    if version != _VERSION:
        if version in "23456789":
            return Refusal("newer", f"the done-ahead map has version {version}, this build reads version {_VERSION}")
        return Refusal("foreign", "the metadata was not written by a done-ahead map")
    if form.lower() not in _FORMS or len(text) > MAX_LENGTH or not text.isascii():
        return Refusal("damaged", "the metadata starts like a done-ahead map, but its encoding is invalid")
    try:
        if text[4:_HEAD] != _checksum(base, form, text[_HEAD:]):
            return Refusal("damaged", f"the done-ahead map is damaged or was not written for offset {base}")
        body = b85decode(text[_HEAD:])
        if form.isupper():
            body = _inflate(body)
        return DoneAhead._of_ranges(base, *forms.read_form(form.lower(), body, base))
    except (DecodeError, OutOfRange, ValueError, zlib.error) as error:
        return Refusal("damaged", f"the done-ahead map is not valid: {error}")


def _as_map(base: int, done: DoneAhead | Iterable[int]) -> DoneAhead:
    if not isinstance(done, DoneAhead):
        return DoneAhead.of_offsets(base, done)
    return done if done.base == base else DoneAhead._of_ranges(base, done._starts, done._stops)


def _check_base(base: int) -> None:
    if not 0 <= base <= MAX_OFFSET:
        raise OutOfRange("base", base, "is not an offset")


def _may_fit(stretches: Stretches) -> bool:
    """Whether any form stays within ``MAX_BODY``: what does not cannot be written whole, deflated or not."""
    span, count = stretches.span, stretches.count
    return min(2 * len(stretches.runs), count, span - count + 1, span // 8) <= MAX_BODY


def _whole_bodies(stretches: Stretches) -> dict[str, bytes]:
    """All of it by form; the forms other than runs only where they may be shorter."""
    bodies = {"r": forms.runs(stretches)}
    limit = min(len(bodies["r"]), MAX_BODY)
    if stretches.count <= limit:
        bodies["d"] = forms.done(stretches, limit + 1)
    if stretches.span - stretches.count < limit:
        bodies["h"] = forms.holes(stretches, limit + 1)
    if stretches.span <= limit * 8:
        bodies["b"] = forms.bitmap(stretches, limit)
    return bodies


def _smallest(bodies: dict[str, bytes]) -> tuple[str, bytes]:
    """The form and body of the fewest bytes, deflated where that helps."""
    candidates = sorted(bodies.items(), key=lambda candidate: len(candidate[1]))
    # The forms say the same, so where one deflates well the others do: the two shortest stand for all.
    for form, body in candidates[:2]:
        if _WORTH_DEFLATING <= len(body) <= MAX_BODY:
            candidates.append((form.upper(), _deflate(body)))
    return min(candidates, key=lambda candidate: len(candidate[1]))


def _longest_prefix(stretches: Stretches, whole: dict[str, bytes], room: int, limit: int) -> tuple[str, bytes, int]:
    """Of bodies with at most ``room`` bytes, the one that says the most of the lowest offsets, and how many it says.

    Bodies that are longer before they are deflated are made up to about ``limit`` bytes.
    """
    if room <= 0:
        return "", b"", 0
    # No body that is tried reaches further than this many ranges.
    lowest = stretches.lowest(max(limit * 4, MAX_BODY // 2))
    bodies = {
        "r": (whole.get("r") or forms.runs(lowest))[:MAX_BODY],
        "d": whole.get("d") or forms.done(lowest, limit),
        "h": whole.get("h") or forms.holes(lowest, limit),
        "b": whole.get("b") or forms.bitmap(lowest, limit),
    }
    candidates = []
    for form, body in bodies.items():
        if plain := forms.cut_inside(form, body, room):
            candidates.append((form, plain, forms.count_of(form, plain)))
    candidates.sort(key=lambda candidate: candidate[2], reverse=True)
    for form, _, _ in candidates[:2]:
        piece, deflated = _cut_to_deflate(form, bodies[form], room)
        if piece:
            candidates.append((form.upper(), deflated, forms.count_of(form, piece)))
    return max(candidates, key=lambda candidate: candidate[2], default=("", b"", 0))


def _cut_to_deflate(form: str, body: bytes, room: int) -> tuple[bytes, bytes]:
    """A long beginning of ``body`` that deflates into ``room``, and the deflated bytes; both empty if it gains nothing.

    Deflated size does not grow evenly, so this is a search by proportion, not for the very last byte.
    """
    best = b"", b""
    low, high = room, len(body) + 1
    guess = min(room * 5 // 4, len(body))
    for _ in range(_PROBES):
        piece = forms.cut(form, body, guess)
        deflated = _deflate(piece)
        if piece and len(deflated) <= room:
            low = guess
            if len(piece) > len(best[0]):
                best = piece, deflated
        elif not best[0]:
            return best
        else:
            high = guess
        guess = min(max(guess * room // len(deflated), low + 1), high - 1)
        if not low < guess < high or high - low < room >> 7:
            break
    return best


def _deflate(body: bytes) -> bytes:
    deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
    return deflater.compress(body) + deflater.flush()


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj(-15)
    inflated = inflater.decompress(body, MAX_BODY + 1)
    if len(inflated) > MAX_BODY or not inflater.eof or inflater.unused_data:
        raise ValueError("the deflated body is too long or incomplete")
    return inflated


def _to_text(base: int, form: str, body: bytes) -> str:
    encoded = b85encode(body).decode("ascii")
    return f"{_MAGIC}{_VERSION}{form}{_checksum(base, form, encoded)}{encoded}"


def _checksum(base: int, form: str, encoded: str) -> str:
    _check_base(base)
    covered = _pack_base(base) + (_VERSION + form + encoded).encode("ascii")
    return b85encode(zlib.crc32(covered).to_bytes(4, "big")).decode("ascii")


def _text_length(body_bytes: int) -> int:
    groups, rest = divmod(body_bytes, 4)
    return _HEAD + groups * 5 + (rest + 1 if rest else 0)


def _room(max_length: int) -> int:
    """The body bytes that fit into ``max_length`` characters; the inverse of ``_text_length``."""
    groups, rest = divmod(max(max_length - _HEAD, 0), 5)
    return groups * 4 + max(rest - 1, 0)
