"""How numbers and times are said on the pages: short, alike everywhere, a dash for what is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from seamark.counts import number_text
from seamark.monitor.targets import Target
from seamark.readable_text import middle_cut
from seamark.rules.time_lag import TimeLag

NOTHING = "–"
_MOST_NAME = 120


@dataclass(frozen=True, slots=True)
class Wording:
    """What the pages need of the command line's way to write: durations, and where a group may be set to."""

    duration: Callable[[float | None], str | None]
    target: Callable[[str], Target]


def count_text(number: int | None) -> str:
    """A number, or a dash.

    >>> count_text(1234567), count_text(None)
    ('1,234,567', '–')
    """
    return NOTHING if number is None else number_text(number)


def name_text(name: str) -> str:
    """A name in a table; a group or client may be called anything, also something of thirty thousand characters.

    >>> name_text("billing"), len(name_text("x" * 30_000))
    ('billing', 120)
    """
    return middle_cut(name, _MOST_NAME)


def change_text(number: int) -> str:
    """A difference, with its sign.

    >>> change_text(99980), change_text(-1200), change_text(0)
    ('+99,980', '-1,200', '0')
    """
    return f"+{number_text(number)}" if number > 0 else number_text(number)


def time_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def sentence_text(reason: str) -> str:
    """A reason as a sentence of its own.

    >>> sentence_text("no such page"), sentence_text("no topic 'a'; did you mean 'b'?")
    ('No such page.', "No topic 'a'; did you mean 'b'?")
    """
    return reason[:1].upper() + reason[1:] + ("" if reason.endswith((".", "?")) else ".")


def catches_up_text(seconds: float | None, lag: int | None, wording: Wording, *, has_members: bool) -> str:
    """When a group will have caught up; a dash if it has, if it has not begun, or if nobody reads for it."""
    if not lag or seconds == 0 or (seconds is None and not has_members):
        return NOTHING
    return wording.duration(seconds) or "not enough data"


def behind_text(time: TimeLag | None, wording: Wording) -> str:
    """Time behind, and whether that is only a lower bound."""
    if time is None:
        return NOTHING
    shown = wording.duration(time.seconds) or NOTHING
    return shown if time.is_exact else f"≥ {shown}"
