"""Working through a plan portion by portion, and saying of each group what came of it: forwards and back alike.

What a portion said is given out before the next one begins, and also before an error ends it all. An error of a side is
told as an interruption, with how far it came; one of the plan itself is told as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from seamark.errors import SeamarkError
from seamark.moves.batches import group_portions
from seamark.moves.errors import MoveInterrupted
from seamark.moves.move import GroupMove
from seamark.plans.errors import PlanError

MOVED = "moved"
ALREADY = "already"
HELD = "held back"
FAILED = "failed"
RETURNED = "returned"

T = TypeVar("T")


class GroupOutcome(NamedTuple):
    """What came of one group; ``offsets`` is how many were written, ``reason`` a sentence unless it is as planned."""

    group: str
    to_group: str
    offsets: int
    result: str
    reason: str = ""


@dataclass(slots=True)
class Summary:
    """Counts by result; ``offsets`` is how many were written."""

    groups: int
    offsets: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, outcome: GroupOutcome) -> None:
        self.counts[outcome.result] = self.counts.get(outcome.result, 0) + 1
        self.offsets += outcome.offsets

    @property
    def left(self) -> int:
        """Groups that are not as planned."""
        return self.counts.get(HELD, 0) + self.counts.get(FAILED, 0)


class Account:
    """What is said and counted while a plan is worked through."""

    def __init__(self, groups: int) -> None:
        self.summary = Summary(groups)
        self._said: list[GroupOutcome] = []

    def say(self, move: GroupMove, result: str, reason: str = "", written: int = 0) -> None:
        outcome = GroupOutcome(move.group, move.to_group, written, result, reason)
        self.summary.add(outcome)
        self._said.append(outcome)

    def through(
        self,
        items: Iterable[T],
        size: Callable[[T], int],
        work: Callable[[list[T]], None],
        interrupted: Callable[[SeamarkError], MoveInterrupted],
    ) -> Iterator[GroupOutcome]:
        """Do the work for each portion of the items, and give what it said."""
        for portion in group_portions(items, size):
            try:
                work(portion)
            except SeamarkError as error:
                yield from self._drained()
                if isinstance(error, PlanError):
                    raise
                raise interrupted(error) from error
            yield from self._drained()

    def _drained(self) -> list[GroupOutcome]:
        said, self._said = self._said, []
        return said
