"""Ranges of offsets, and how they are cut into tasks.

A range is what one task reads: offsets from ``begin`` up to but not including ``end`` of one partition. Cutting is by
offsets, because that is all that is known before reading; compaction and transactions make some parts smaller than
others, never wrong. The parts of a range touch: together they are the range, in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from seamark.topic_partition import TopicPartition


class OffsetRange(NamedTuple):
    partition: TopicPartition
    topic_id: str
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin

    def cut(self, parts: int) -> list[OffsetRange]:
        """As many parts of the same size, give or take one offset."""
        bounds = [self.begin + self.size * number // parts for number in range(parts + 1)]
        return [self._replace(begin=begin, end=end) for begin, end in pairwise(bounds) if begin < end]


def split(
    ranges: Sequence[OffsetRange], min_parts: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Cut into at least ``min_parts`` parts with at most ``max_records`` offsets each; empty ranges are left out.

    >>> tp = TopicPartition("orders", 0)
    >>> [(part.begin, part.end) for part in split([OffsetRange(tp, "", 0, 10)], min_parts=3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    wanted = [offset_range for offset_range in ranges if offset_range.size > 0]
    parts = [1 if max_records is None else -(-offset_range.size // max_records) for offset_range in wanted]
    missing = 0 if min_parts is None else min_parts - sum(parts)
    # The next cut always goes to the range whose parts are largest.
    largest = [(-offset_range.size / parts[place], place) for place, offset_range in enumerate(wanted)]
    heapq.heapify(largest)
    while missing > 0 and largest:
        _, place = heapq.heappop(largest)
        if parts[place] >= wanted[place].size:
            continue
        parts[place] += 1
        missing -= 1
        heapq.heappush(largest, (-wanted[place].size / parts[place], place))
    return [part for offset_range, count in zip(wanted, parts, strict=True) for part in offset_range.cut(count)]
