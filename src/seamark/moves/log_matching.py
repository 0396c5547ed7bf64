"""Whether two logs hold the same records at the same offsets, decided from a few of them: pure.

Every sample is the first record at or after an offset, read on both sides and compared by offset, time and checksum of
key, value and headers. The samples lie at both ends of what the two logs have in common, in between, and around each
committed offset. One difference is enough to say no. Records that all look alike prove nothing, so that is a no as
well: a wrong yes loses records, a wrong no only repeats some.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from seamark.client import Record
from seamark.counts import counted
from seamark.plans.plan import LogRange

# Points between the two ends of what both logs hold: enough to notice a hole or a shift anywhere but near the end of
# one side only, which the points at the end and at the committed offset are for.
_BETWEEN = 6


class Fingerprint(NamedTuple):
    """One record; two with equal fingerprints are taken for the same."""

    offset: int
    timestamp_ms: int
    checksum: int


def fingerprint(record: Record) -> Fingerprint:
    checksum = 0
    for part in (record.key, record.value, *(piece for name, value in record.headers for piece in (name, value))):
        blob = part.encode() if isinstance(part, str) else part
        # The length keeps ("ab", "c") apart from ("a", "bc"), and nothing apart from an empty text.
        checksum = zlib.crc32(b"-" if blob is None else len(blob).to_bytes(8, "big") + blob, checksum)
    return Fingerprint(record.offset, record.timestamp_ms, checksum)


# What was found at the points of one partition; None where no record follows.
Found = Mapping[int, Fingerprint | None]


@dataclass(frozen=True, slots=True)
class Match:
    """``compared`` is how many records were; ``reason`` says why the logs are not taken for equal."""

    is_equal: bool
    compared: int
    reason: str = ""


def shared_range(source: LogRange, target: LogRange) -> LogRange:
    """The offsets that both logs cover; empty if ``log_start`` is not below ``log_end``."""
    return LogRange(max(source.log_start, target.log_start), min(source.log_end, target.log_end))


def sample_points(source: LogRange, target: LogRange, committed: Iterable[int]) -> list[int]:
    """The offsets to look at on both sides, sorted."""
    both = shared_range(source, target)
    if both.log_start >= both.log_end:
        return []
    length = both.log_end - both.log_start
    points = {both.log_start, both.log_end - 1}
    points |= {both.log_start + length * step // (_BETWEEN + 1) for step in range(1, _BETWEEN + 1)}
    points |= {point for offset in committed for point in (offset - 1, offset)}
    return sorted(point for point in points if both.log_start <= point < both.log_end)


def match(points: Iterable[int], source: Found, target: Found, both: LogRange) -> Match:
    """Compare what was found; records behind the shared range say nothing about the other side."""
    seen: dict[int, Fingerprint] = {}
    for point in points:
        here, there = _within(source.get(point), both), _within(target.get(point), both)
        if here is None and there is None:
            continue
        if here != there:
            return Match(False, len(seen), f"the logs differ at offset {point}: {_difference(here, there)}")
        assert here is not None
        seen[here.offset] = here
    if not seen:
        return Match(False, 0, "the logs have no record in common to compare")
    contents = {(record.timestamp_ms, record.checksum) for record in seen.values()}
    if len(contents) == 1 and (len(seen) > 1 or next(iter(contents))[0] < 0):
        return Match(
            False,
            len(seen),
            f"{counted(len(seen), 'record')} compared, all with the same content, which proves nothing",
        )
    return Match(True, len(seen))


def _within(record: Fingerprint | None, both: LogRange) -> Fingerprint | None:
    return record if record is not None and record.offset < both.log_end else None


def _difference(here: Fingerprint | None, there: Fingerprint | None) -> str:
    if here is None or there is None:
        return f"only the {'target' if here is None else 'source'} has a record"
    if here.offset != there.offset:
        return f"the next record is {here.offset} and {there.offset}"
    return "different timestamps" if here.timestamp_ms != there.timestamp_ms else "different content"
