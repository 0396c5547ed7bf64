"""What a committed offset says is done: everything below it, and what its done-ahead map has beyond.

A consumer that works out of order writes that map into the commit's metadata (``wire.offsets.done_ahead``). Whoever
sets the offset to a plain number decides about the map too:

- forward: what is done at or beyond the number stays done. The map cannot name the committed offset itself, so a number
  that is done becomes the first one after it that is not;
- to the same offset: nothing changes;
- backward: records are to be processed again, so the map is dropped.

A kept map keeps the leader epoch that dates it (decision 9); the record of that epoch is at or beyond the new offset,
so the epoch is right for the offset as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamark.client import Offset
from seamark.wire.offsets import done_ahead
from seamark.wire.offsets.done_ahead import DoneAhead

# (start, stop) pairs, stop exclusive, ascending; no two touch.
Ranges = Sequence[tuple[int, int]]
# What metadata is limited to: for tools that read its length as one byte, and by brokers.
_LENGTHS = (126, done_ahead.DEFAULT_LENGTH)


def done_beyond(committed: Offset | None) -> Ranges:
    """What is done beyond the committed offset; empty if its metadata has no map that may be applied."""
    if committed is None or not committed.metadata:
        return ()
    decoded = done_ahead.decode(committed.metadata, committed.offset)
    return () if decoded is None else decoded.ranges


def moved_to(before: Offset | None, offset: int) -> Offset:
    """The commit that sets a group from ``before`` to ``offset``.

    >>> before = Offset(10, done_ahead.encode(10, range(20, 30)).text, 3)
    >>> after = moved_to(before, 15)
    >>> after.offset, after.leader_epoch, done_beyond(after)
    (15, 3, [(20, 30)])
    >>> moved_to(before, 25)
    Offset(30, leader_epoch=3)
    >>> moved_to(before, 5)
    Offset(5)
    """
    if before is None:
        return Offset(offset)
    if offset == before.offset:
        return before
    ranges = done_beyond(before) if offset > before.offset else ()
    offset = next((stop for start, stop in ranges if start <= offset < stop), offset)
    if not ranges or offset > ranges[-1][1]:
        return Offset(offset)
    kept = DoneAhead(offset, [done for done in ranges if done[0] > offset])
    # A part of a deflated map may be a few characters longer than the whole was.
    limit = next((length for length in _LENGTHS if len(before.metadata) <= length), len(before.metadata))
    text = done_ahead.encode(offset, kept, limit).text
    return Offset(offset, text, before.leader_epoch)


def within(ranges: Ranges, start: int, stop: int) -> Ranges:
    """The part of the ranges from ``start`` up to, not including, ``stop``."""
    return [(max(low, start), min(high, stop)) for low, high in ranges if max(low, start) < min(high, stop)]


def count(ranges: Ranges) -> int:
    return sum(stop - start for start, stop in ranges)


def without(ranges: Ranges, others: Ranges) -> int:
    """How many offsets of ``ranges`` are not in ``others``.

    >>> without([(0, 10), (20, 30)], [(5, 22), (29, 40)])
    12
    """
    common, index = 0, 0
    for start, stop in ranges:
        while index < len(others) and others[index][1] <= start:
            index += 1
        ahead = index
        while ahead < len(others) and others[ahead][0] < stop:
            common += min(stop, others[ahead][1]) - max(start, others[ahead][0])
            ahead += 1
    return count(ranges) - common
