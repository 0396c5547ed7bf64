"""The producer's built-in logic for records without a place, one per topic (KIP-794, J7).

It sticks to a partition for ``batch.size`` bytes, and then moves on as soon as the last batch is full: moving at once
would leave a small batch behind. At twice that size it moves in any case. The next partition is random; with adaptive
partitioning one with a shorter queue is more likely, in proportion to how much shorter it is than the longest.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate

from seamark.partitioners.contract import Choices


class BuiltInPartitioner:
    """The sticky partition of one topic, and how many bytes it has had."""

    def __init__(self, sticky_bytes: int, random_source: random.Random | None = None) -> None:
        # A batch.size of 0 turns batching off: every record then moves on.
        self._sticky_bytes = max(1, sticky_bytes)
        self._random = random_source if random_source is not None else random.Random()
        self._current: int | None = None
        self._bytes = 0
        self._partitions: list[int] = []
        self._cumulative: list[int] = []

    def update_load(self, queue_lengths: Mapping[int, int]) -> None:
        """Take note of the batches waiting per usable partition; one entry, or none, turns weighting off."""
        lengths = list(queue_lengths.items())
        if len(lengths) < 2 or len({length for _, length in lengths}) == 1:
            self._partitions, self._cumulative = [], []
            return
        longest = max(length for _, length in lengths)
        self._partitions = [partition for partition, _ in lengths]
        # The longest queue keeps a weight of one: it is less likely, not impossible.
        self._cumulative = list(accumulate(longest + 1 - length for _, length in lengths))

    def current(self, choices: Choices) -> int:
        """The partition for the next record without a place."""
        if self._current is None or self._current >= choices.count:
            self._current = self._next(choices)
            self._bytes = 0
        return self._current

    @property
    def partition(self) -> int | None:
        """The partition of the moment, if one was chosen."""
        return self._current

    @property
    def bytes_left(self) -> int:
        """How much the present partition gets at most before the next one's turn."""
        return 2 * self._sticky_bytes - self._bytes

    def appended(self, partition: int, byte_count: int, choices: Choices, *, last_batch_is_full: bool) -> None:
        """A record of so many bytes went to the sticky partition; move on if it has had enough."""
        if partition != self._current:
            return
        self._bytes += byte_count
        if (self._bytes >= self._sticky_bytes and last_batch_is_full) or self._bytes >= 2 * self._sticky_bytes:
            self._current = self._next(choices)
            self._bytes = 0

    def _next(self, choices: Choices) -> int:
        if self._cumulative and max(self._partitions) < choices.count:
            drawn = self._random.randrange(self._cumulative[-1])
            return self._partitions[bisect_right(self._cumulative, drawn)]
        usable = choices.usable()
        return usable[self._random.randrange(len(usable))]
