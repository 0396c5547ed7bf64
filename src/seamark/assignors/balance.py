"""How even an assignment is.

The score is the sum of the differences in size over all pairs of members; 0 is perfectly even and lower is better. It
is what Kafka's sticky assignors compare before they accept moves.
"""

from __future__ import annotations

from collections.abc import Iterable


def balance_score(sizes: Iterable[int]) -> int:
    """Sum of the size differences over all pairs.

    >>> balance_score([3, 1, 1])
    4
    """
    # In ascending order each size is larger than all before it, so it adds its difference to each of them.
    score = sum_before = 0
    for count_before, size in enumerate(sorted(sizes)):
        score += size * count_before - sum_before
        sum_before += size
    return score
