"""Groups in portions: as many as are asked about together, and no more than memory should hold.

A portion is bounded by its groups and by its offsets; one group is never divided, so the largest group is the least
that must fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

GROUPS_AT_ONCE = 500
OFFSETS_AT_ONCE = 20_000

T = TypeVar("T")


def portions(
    items: Iterable[T], size: Callable[[T], int], *, most_items: int = GROUPS_AT_ONCE, most_size: int = OFFSETS_AT_ONCE
) -> Iterator[list[T]]:
    """Consecutive items in lists.

    >>> list(portions([3, 4, 9, 1], size=lambda item: item, most_size=8))
    [[3, 4], [9], [1]]
    """
    portion: list[T] = []
    held = 0
    for item in items:
        cost = size(item)
        if portion and (len(portion) >= most_items or held + cost > most_size):
            yield portion
            portion, held = [], 0
        portion.append(item)
        held += cost
    if portion:
        yield portion
