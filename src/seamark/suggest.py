"""What is said of a name that is not there: the closest one that is, for a slip of the finger."""

from __future__ import annotations

from collections.abc import Iterable


def closest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The name that was probably meant, of those whose likeness, 1 for the same name, is large enough."""
    # Only for an error: whoever imports this need not wait for it.
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), 1, likeness)), None)


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The end of a sentence about a wrong name; empty where no other comes close.

    >>> did_you_mean("ordrs", ["orders", "clicks"]), did_you_mean("payments", ["orders", "clicks"])
    ("; did you mean 'orders'?", '')
    """
    meant = closest(name, known, likeness)
    return "" if meant is None else f"; did you mean {meant!r}?"


def absent(what: str, name: str, known: Iterable[str], where: str = "") -> str:
    """The sentence about a missing topic or group; ``where`` says of what it is missing.

    >>> absent("topic", "ordrs", ["orders", "clicks"])
    "there is no topic 'ordrs'; did you mean 'orders'?"
    """
    return f"there is no {what} {name!r}{where}{did_you_mean(name, known)}"


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence about a field or column that a user wrote and there is not.

    >>> unknown("field", "valu", ["key", "value"])
    "unknown field 'valu'; did you mean 'value'?"
    """
    return f"unknown {what} {name!r}" + (did_you_mean(name, known) or f"; known: {', '.join(known)}")
