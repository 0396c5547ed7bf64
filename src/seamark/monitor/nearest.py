"""What is said of a name that is not there: the nearest one that is, for a slip of the finger."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def absent(what: str, name: str, known: Iterable[str], where: str = "") -> str:
    """The sentence about a missing topic or group; ``where`` says of what it is missing.

    >>> absent("topic", "ordrs", ["orders", "clicks"])
    "there is no topic 'ordrs'; did you mean 'orders'?"
    """
    near = get_close_matches(name, list(known), n=1)
    return f"there is no {what} {name!r}{where}" + (f"; did you mean {near[0]!r}?" if near else "")


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence about a field or column that a user wrote and there is not.

    >>> unknown("field", "valu", ["key", "value"])
    "unknown field 'valu'; did you mean 'value'?"
    """
    near = get_close_matches(name, list(known), n=1)
    return f"unknown {what} {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")
