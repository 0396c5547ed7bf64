"""Numbers in sentences, written one way everywhere: thousands apart by commas, and "1 record" but "2 records".

Tables of the command line and everything that programs read have bare digits instead.
"""

from __future__ import annotations

from collections.abc import Sequence


def number_text(number: int) -> str:
    """A whole number as people read it.

    >>> number_text(1234567)
    '1,234,567'
    """
    return f"{number:,}"


def counted(number: int, thing: str, things: str = "") -> str:
    """A number with what it counts; ``things`` is the plural where it is not made with an s.

    >>> counted(0, "record"), counted(1, "record"), counted(12_000, "record"), counted(2, "entry", "entries")
    ('0 records', '1 record', '12,000 records', '2 entries')
    """
    return f"{number_text(number)} {thing if number == 1 else things or thing + 's'}"


_NAMED = 5


def some_of(names: Sequence[str]) -> str:
    """Names in a sentence; of many only the first.

    >>> some_of(["a", "b"]), some_of([f"m{number}" for number in range(1000)])
    ('a, b', 'm0, m1, m2, m3, m4 and 995 more')
    """
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {number_text(len(names) - _NAMED)} more"


def shortened(text: str, most: int = 200) -> str:
    """A text of somebody else's making, for a sentence: the end of a long one is left out.

    >>> shortened("orders"), shortened("x" * 1000, most=5)
    ('orders', 'xxxxx…')
    """
    return text if len(text) <= most else f"{text[:most]}…"
