"""Numbers in sentences, written one way everywhere: thousands apart by commas, and "1 record" but "2 records".

Tables of the command line and everything that programs read have bare digits instead.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice


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


def first_of(names: Collection[str], most: int = 5) -> str:
    """The first names of what may be many, and how many more there are.

    >>> first_of(["a", "b", "c"], most=2), first_of(["a", "b"])
    ('a, b and 1 more', 'a, b')
    """
    shown = ", ".join(islice(names, most))
    return shown if len(names) <= most else f"{shown} and {number_text(len(names) - most)} more"


def shortened(text: str, most: int = 200) -> str:
    """A text of somebody else's making, for a sentence: the end of a long one is left out.

    >>> shortened("orders"), shortened("x" * 1000, most=5)
    ('orders', 'xxxxx…')
    """
    return text if len(text) <= most else f"{text[:most]}…"
