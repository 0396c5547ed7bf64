"""Groups in portions: as many as are asked about together, and no more than memory should hold.

A portion is bounded by its groups and by its offsets; one group is never divided, so the largest group is the least
that must fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from seamark.portions import portions

GROUPS_AT_ONCE = 500
OFFSETS_AT_ONCE = 20_000

T = TypeVar("T")


def group_portions(groups: Iterable[T], offset_count: Callable[[T], int]) -> Iterator[list[T]]:
    """Consecutive groups in lists; ``offset_count`` tells how many offsets one has."""
    return portions(groups, OFFSETS_AT_ONCE, offset_count, most_items=GROUPS_AT_ONCE)
