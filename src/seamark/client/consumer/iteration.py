"""Handing records out one at a time: what ``for record in consumer`` reads from.

Records are *shown* by the fetcher, a piece of one partition at a time, and taken from it only as they are handed out:
what was not handed out is still the fetcher's, so that a poll, a seek, a pause or another assignment finds it there.
All iterators of a consumer share one piece.

Handing out a record costs one step of a list iterator. How many were handed out is read off that iterator when somebody
needs to know: the next piece, a commit, a position, the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import length_hint

from seamark.client.core.assignment_state import AssignmentState
from seamark.client.core.fetch_port import Fetcher, Moved
from seamark.client.records import Record


class RecordIteration:
    """Owned by the caller's thread. ``handing`` gives the records that are shown, to whoever asks next."""

    __slots__ = ("_assignment", "_consumed", "_fetcher", "_records", "_taken", "handing")

    def __init__(self, fetcher: Fetcher, assignment: AssignmentState, consumed: Callable[[Moved], None]) -> None:
        self._fetcher = fetcher
        self._assignment = assignment
        self._consumed = consumed
        self._records: list[Record] = []
        self._taken = 0
        self.handing: Iterator[Record] = iter(self._records)

    def show(self, records: Sequence[Record]) -> None:
        """These are next; what was shown before must have ended."""
        self._records = list(records)
        self._taken = 0
        self.handing = iter(self._records)

    def take_handed_out(self, *, is_back: bool) -> None:
        """Move the position behind the records that were handed out.

        Unless the caller is back, the last of them is still at hand: it is consumed, and does not count as processed.
        """
        count = len(self._records) - length_hint(self.handing) - self._taken
        if not count:
            return
        self._taken += count
        if not is_back:
            # Whoever asked for the last one has come back for all before it.
            if count > 1:
                self._consumed(self._fetcher.take_shown(count - 1))
            self._assignment.came_back()
            count = 1
        self._consumed(self._fetcher.take_shown(count))

    def end(self, *, is_back: bool) -> None:
        """Show nothing any more: what was not handed out stays with the fetcher."""
        if self._records:
            self.take_handed_out(is_back=is_back)
            # Whoever is in the middle of a loop over it finds its end.
            self._records.clear()
            self.show(())
