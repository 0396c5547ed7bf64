"""How numbers and times are said on the pages: short, alike everywhere, a dash for what is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from seamark.monitor.targets import Target
from seamark.rules.time_lag import TimeLag

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Wording:
    """What the pages need of the command line's way to write: durations, and where a group may be set to."""

    duration: Callable[[float | None], str | None]
    target: Callable[[str], Target]


def count_text(number: int | None) -> str:
    """Thousands apart.

    >>> count_text(1234567), count_text(None)
    ('1\u202f234\u202f567', '–')
    """
    return NOTHING if number is None else f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def plural(number: int, thing: str) -> str:
    """A number with what it counts.

    >>> plural(1, "member"), plural(2, "member")
    ('1 member', '2 members')
    """
    return f"{count_text(number)} {thing}{'' if number == 1 else 's'}"


def time_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def behind_text(time: TimeLag | None, wording: Wording) -> str:
    """Time behind, and whether that is only a lower bound."""
    if time is None:
        return NOTHING
    shown = wording.duration(time.seconds) or NOTHING
    return shown if time.is_exact else f"≥ {shown}"
