"""Things in portions: as many at a time as one request, or the memory at hand, should have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def portions(
    items: Iterable[T], most: int, weigh: Callable[[T], int] | None = None, *, most_items: int | None = None
) -> Iterator[list[T]]:
    """The items in order, as many at a time as weigh ``most`` together; one that weighs more comes alone.

    Without ``weigh`` each weighs 1.

    >>> list(portions(["a", "bb", "ccc", "dddd"], 3, len))
    [['a', 'bb'], ['ccc'], ['dddd']]
    >>> list(portions([3, 4, 9, 1, 1, 1], 8, lambda item: item, most_items=2))
    [[3, 4], [9], [1, 1], [1]]
    """
    portion: list[T] = []
    weight = 0
    for item in items:
        own = 1 if weigh is None else weigh(item)
        if portion and (weight + own > most or len(portion) == most_items):
            yield portion
            portion, weight = [], 0
        portion.append(item)
        weight += own
    if portion:
        yield portion
