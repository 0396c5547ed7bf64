r"""Text from strangers as a person may read it: characters that hide, forge or reorder text are written as escapes.

Client ids, group ids, topic names, metadata, header values and a remote broker's messages may have any character. One
that moves the cursor, colours the screen, turns the direction of writing, takes no room or begins a new line could
hide what a line says, or forge another one. ``str.isprintable`` decides: it is False for control characters (C0, DEL
and C1), format characters (zero width, bidi), line and paragraph separators, half surrogates and what Unicode has not
assigned. What is shown is Python's own escape, so a reader can tell which character was there.

Text that is printable comes back as it is, so escaping twice changes nothing.
"""

from __future__ import annotations

import json
import re
from typing import Any

# Beside these, JSON's own syntax has no characters: what else there is stands inside a string.
_NOT_PLAIN = re.compile(r"[^\n -~]+")
# A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def readable(text: str) -> str:
    r"""The text in one line.

    >>> print(readable("billing\x1b[2J\n\x9b1m\u202eorders\u200b"))
    billing\x1b[2J\n\x9b1m\u202eorders\u200b
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def middle_cut(text: str, most: int) -> str:
    """A text of at most so many characters: beginning and end stay, because they tell names apart.

    >>> middle_cut("orders", 8), middle_cut("orders-of-the-north-01", 9)
    ('orders', 'orde…h-01')
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return text[: most - 1 - tail] + "…" + text[len(text) - tail :]


def readable_lines(text: str) -> str:
    """The same for text of several lines, which it keeps."""
    if text.isprintable():
        return text
    return "\n".join(map(readable, text.split("\n")))


def readable_json(value: Any, **layout: Any) -> str:
    r"""JSON with letters of every script as they are, and the characters that ``readable`` escapes as ``\u....``.

    Whoever parses it gets the exact text. ``layout`` is what ``json.dumps`` takes.

    >>> print(readable_json({"group": "Zählung\u202e\x9b\x7f"}))
    {"group": "Zählung\u202e\u009b\u007f"}
    """
    return _NOT_PLAIN.sub(_json_escapes, json.dumps(value, ensure_ascii=False, **layout))


def _json_escapes(match: re.Match[str]) -> str:
    text = match[0]
    if text.isprintable():
        return text
    # Above U+FFFF these are the two halves of a pair, as JSON wants it.
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in text)


def no_formula(text: str) -> str:
    """A text for a CSV file: with an apostrophe before what a spreadsheet would compute.

    >>> no_formula("=HYPERLINK(A1)"), no_formula("a=b")
    ("'=HYPERLINK(A1)", 'a=b')
    """
    # Also before one that begins with an apostrophe already, so that ``without_apostrophe`` gives back every text.
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA_STARTS) else text


def without_apostrophe(cell: str) -> str:
    """The text that ``no_formula`` made the cell of."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(_FORMULA_STARTS) else cell
