"""The frontier of one partition: the first offset that is not safely done, from what is known to be in flight.

Owns the rule that the committed offset never passes unfinished work (H2, H3, H4, H20). It is never worked out as "the
last done offset plus one": a partition has gaps, where transactions ended, where compaction removed records, where a
filter hid them. An offset in a gap is never in flight, so it holds nothing up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise, repeat
from typing import Generic, TypeVar

from seamark.errors import SeamarkError
from seamark.wire.offsets.done_ahead import DoneAhead

Item = TypeVar("Item")

# Ranges offered to the commit metadata: hardly ever do more fit into Kafka's 4,096 characters, and a commit with
# 100,000 records in flight stays cheap.
MAX_RANGES = 32_768
# A dict keeps a hole for what was deleted from it until it grows, and finding the first key walks over the holes. After
# this many walks the holes are taken out, so that asking after every record stays cheap too.
_WALKS = 2_048


class InvariantViolation(SeamarkError):
    """The frontier was told something that cannot be; whoever told it must not commit any more."""


class Frontier(Generic[Item]):
    """How far one partition is safely done, in one term of its assignment.

    **Words.** ``position`` is the next offset to be polled. An offset is *in flight* from the moment its record was
    polled until its handler is through with it. ``frontier`` is the smallest offset in flight, or the position if
    nothing is. All three are exclusive: everything below is over, the offset itself is not. That is what Kafka calls
    a committed offset, so the frontier is committed as it is; nothing is added and nothing subtracted (H4).

    **State.** The offsets in flight, in the order they were polled, and the position: nothing is kept of what is done
    (H22). Offsets are polled upwards within a term, so the first key of an insertion-ordered dict is the smallest.

    **Why gaps do no harm.** What lies below the position and is not in flight is either done or was never there for
    us. Contiguity is not looked at, so a partition whose offsets are 0, 2, 4, 6 moves as well as any other.

    **Done ahead.** What is done above the frontier is the same fact read backwards: the stretches between the offsets
    in flight. A restart from the frontier that leaves these out repeats exactly what was in flight. ``known_done`` is
    such a map, read from the commit that this term started from: its offsets are not run again, and what it says
    beyond the position is handed on to the next commit until the position gets there.

    **Terms.** A term is one assignment of the partition to us. Each call names the term under which the record was
    polled. A record or result of another term is counted in ``late`` and changes nothing. Going back to an earlier
    offset (a seek, a truncated log) starts a new term, so the results of the first pass cannot be taken for those of
    the second.

    >>> frontier = Frontier(term=1, position=5)
    >>> [frontier.take(1, offset) for offset in (5, 6, 7, 9)]       # 8 is a transaction's marker, nobody polls it
    [True, True, True, True]
    >>> frontier.done(1, 6), frontier.done(1, 7), frontier.frontier
    (True, True, 5)
    >>> frontier.done_ahead().ranges                                # 5 and 9 are in flight, what is between is over
    [(6, 9)]
    >>> frontier.done(1, 5), frontier.frontier
    (True, 9)
    >>> frontier.done(1, 9), frontier.frontier
    (True, 10)
    >>> frontier.rewind(2, 7)                                       # somebody seeks back to 7
    >>> frontier.take(2, 7), frontier.done(1, 7), frontier.frontier # a result of the first pass comes late
    (True, False, 7)
    >>> frontier.late
    1
    """

    __slots__ = ("_first", "_in_flight", "_known_done", "_known_stop", "_walks", "late", "position", "spared", "term")

    def __init__(self, term: int, position: int, known_done: DoneAhead | None = None) -> None:
        self.late = 0
        self.spared = 0
        self._start(term, position, known_done)

    def _start(self, term: int, position: int, known_done: DoneAhead | None) -> None:
        self.term = term
        self.position = position
        self._in_flight: dict[int, Item | None] = {}
        # The offset that was first when it was last looked for; it is first as long as it is in flight.
        self._first = -1
        self._walks = 0
        self._know(known_done)

    def _know(self, known_done: DoneAhead | None) -> None:
        self._known_done = known_done or None
        self._known_stop = known_done.ranges[-1][1] if known_done else 0

    def take(self, term: int, offset: int, item: Item | None = None) -> bool:
        """The record at ``offset`` was polled: put it in flight. False if it must not be run: late, or done before.

        ``item`` is whatever the caller wants back from ``first``.
        """
        if term != self.term:
            self.late += 1
            return False
        if offset < self.position:
            raise self._polled_backwards(offset)
        self.position = offset + 1
        if self._known_done is not None and self._is_known_done(offset):
            return False
        self._in_flight[offset] = item
        return True

    def done(self, term: int, offset: int) -> bool:
        """The record at ``offset`` is over. False if it was late, or over before."""
        if term != self.term:
            self.late += 1
            return False
        try:
            del self._in_flight[offset]
        except KeyError:
            if offset >= self.position:
                raise self._done_before_polled(offset) from None
            return False
        return True

    def take_all(self, term: int, offsets: Sequence[int], items: Iterable[Item | None] | None = None) -> int:
        """As ``take`` for ascending ``offsets``; how many were put in flight."""
        if not offsets:
            return 0
        if term != self.term:
            self.late += len(offsets)
            return 0
        held = self._in_flight
        before = len(held)
        previous = self.position - 1
        for offset, item in zip(offsets, items if items is not None else repeat(None, len(offsets)), strict=True):
            if offset <= previous:
                self.position = previous + 1
                raise self._polled_backwards(offset)
            previous = offset
            if self._known_done is None or not self._is_known_done(offset):
                held[offset] = item
        self.position = previous + 1
        return len(held) - before

    def done_all(self, term: int, offsets: Iterable[int]) -> int:
        """As ``done`` for each of ``offsets``; how many of them were in flight."""
        held = self._in_flight
        before = len(held)
        if term != self.term:
            self.late += sum(1 for _ in offsets)
            return 0
        for offset in offsets:
            # The items are the caller's, so that none of them can be this object.
            if held.pop(offset, self) is self and offset >= self.position:
                raise self._done_before_polled(offset)
        return before - len(held)

    def advance(self, term: int, position: int) -> None:
        """The poll went on to ``position`` behind its last record: nothing for us lies between."""
        if term == self.term and position > self.position:
            self.position = position

    def rewind(self, term: int, position: int, known_done: DoneAhead | None = None) -> None:
        """Start over at ``position`` in a newer ``term``: what is in flight is forgotten and its results are late."""
        if term <= self.term:
            raise InvariantViolation(f"term {term} does not follow term {self.term}")
        self._start(term, position, known_done)

    def cut_known(self, offset: int) -> None:
        """Forget what ``known_done`` says of ``offset`` and beyond: other records are there now."""
        if self._known_done is not None:
            self._know(self._known_done.below(offset))

    @property
    def knows_beyond(self) -> bool:
        """Whether ``known_done`` says something of offsets that were not polled yet."""
        return self._known_stop > self.position

    @property
    def frontier(self) -> int:
        """The first offset that is not safely done: what may be committed."""
        first = self._first_offset()
        return self.position if first < 0 else first

    @property
    def first(self) -> Item | None:
        """The item of the record that holds the frontier back; None if none does or it was taken without one."""
        return self._in_flight.get(self._first_offset())

    def item(self, offset: int) -> Item | None:
        return self._in_flight.get(offset)

    def replace_items(self, items: Mapping[int, Item]) -> None:
        """What ``first`` and ``item`` give from now on for those of these offsets that are in flight."""
        held = self._in_flight
        for offset, item in items.items():
            if offset in held:
                held[offset] = item

    def is_in_flight(self, offset: int) -> bool:
        return offset in self._in_flight

    def __len__(self) -> int:
        """How many records are in flight."""
        return len(self._in_flight)

    def offsets(self) -> list[int]:
        """The offsets in flight, upwards."""
        return list(self._in_flight)

    def done_ahead(self) -> DoneAhead:
        """What is over above the frontier, of which the lowest ``MAX_RANGES`` stretches."""
        frontier = self.frontier
        offsets = list(islice(self._in_flight, MAX_RANGES + 1))
        ranges = [(offset + 1, following) for offset, following in pairwise(offsets) if following - offset > 1]
        if len(offsets) == len(self._in_flight):
            if offsets and self.position > offsets[-1] + 1:
                ranges.append((offsets[-1] + 1, self.position))
            if self.knows_beyond:
                ranges += self._known_beyond(max(self.position, frontier + 1))
        return DoneAhead(frontier, ranges[:MAX_RANGES])

    def _known_beyond(self, start: int) -> list[tuple[int, int]]:
        """What the previous owner said about offsets that we have not polled yet.

        The frontier stays at the position even where the map goes on: the log may have been cut since, and an offset
        behind its end must not be committed.
        """
        assert self._known_done is not None
        return [(max(low, start), stop) for low, stop in self._known_done.ranges if stop > start]

    def _first_offset(self) -> int:
        held = self._in_flight
        if self._first in held:
            return self._first
        self._first = next(iter(held), -1)
        self._walks += 1
        if self._walks >= _WALKS:
            self._walks = 0
            self._in_flight = dict(held.items())
        return self._first

    def _is_known_done(self, offset: int) -> bool:
        assert self._known_done is not None
        if offset in self._known_done:
            self.spared += 1
            return True
        if offset >= self._known_stop:
            self._know(None)
        return False

    def _done_before_polled(self, offset: int) -> InvariantViolation:
        return InvariantViolation(
            f"offset {offset} is reported as done, but the partition was polled only up to {self.position}"
        )

    def _polled_backwards(self, offset: int) -> InvariantViolation:
        return InvariantViolation(
            f"offset {offset} was polled in term {self.term} after the position had reached {self.position}: going "
            "back requires a new term"
        )
