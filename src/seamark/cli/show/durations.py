"""Durations and times as people write them: ``90s``, ``10m``, ``1h30m``, ``2d``; ``2026-11-15T08:00Z``."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from seamark.errors import UsageError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_LONGEST_PAUSE_S = 365 * 86_400.0
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def seconds_of(text: str) -> float:
    """A duration written with units.

    >>> seconds_of("1h30m"), seconds_of("250ms")
    (5400.0, 0.25)
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"{text!r} is not a duration; examples: 30s, 10m, 1h30m, 2d")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if math.isinf(seconds):
        raise UsageError(f"{text[:20]}… is too long")
    return seconds


def pause_of(text: str) -> float:
    """The value of ``--every``: without a pause a cluster would be asked as fast as it answers."""
    seconds = seconds_of(text)
    if not 0 < seconds <= _LONGEST_PAUSE_S:
        raise UsageError(f"--every {text}: must be greater than 0 and at most 365d")
    return seconds


def count_of(text: str) -> int | None:
    """A whole number of at most 19 digits, which is as many as an offset can have; None if the text is none.

    >>> count_of("1000"), count_of("10m"), count_of("9" * 5000)
    (1000, None, None)
    """
    return int(text) if text.isdecimal() and len(text) <= 19 else None


def duration_text(seconds: float | None) -> str | None:
    """The two largest units, which is as exact as an estimate can be.

    >>> duration_text(5430), duration_text(0.2), duration_text(200_000)
    ('1h30m', '0.2s', '2d7h')
    """
    if seconds is None:
        return None
    if math.isinf(seconds):
        return "never"
    if seconds < 10:
        return f"{seconds:.1f}s" if seconds else "0s"
    whole = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append((count, unit))
    return "".join(f"{count}{unit}" for count, unit in parts[:2] if count)


def time_ms_of(text: str) -> int:
    """Milliseconds since 1970 of an ISO time; one without a zone is taken as UTC.

    >>> time_ms_of("1970-01-01T00:00:01Z"), time_ms_of("1970-01-02")
    (1000, 86400000)
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time; example: 2026-11-15T08:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
