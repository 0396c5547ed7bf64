"""What the owner wants of whoever runs handlers, in threads, on a loop or in processes alike.

A pool is given calls in bulk and reports each exactly once through the mailbox, whatever the handler does. It runs at
most ``concurrency`` of them at a time and may be given some more: a free handler then goes on with the next call
without waiting for the owner. Pools never look into records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from seamark.parallel.core.actions import StartCall
from seamark.parallel.core.work import Work
from seamark.parallel.settings import Settings

# Calls can be withdrawn as long as they are not begun, so many of them do no harm.
_MOST_AHEAD = {"threads": 128, "loop": 1_024}


class Pool(Protocol):
    def start(self, calls: Sequence[StartCall]) -> None:
        """Run these; by the owner."""

    def withdraw(self) -> list[StartCall]:
        """Give back the calls that no handler has begun; by the owner. They are not reported."""

    def stands_at(self, work: Work) -> str | None:
        """Where the handler of a running record stands; None if no handler has it."""

    def close(self, timeout: float) -> None:
        """End what is idle; calls that do not end in time are left behind and never reported."""


def taken_back(queue: deque[StartCall]) -> list[StartCall]:
    """Empty a queue that handlers take from at the same time."""
    found = []
    while queue:
        try:
            found.append(queue.popleft())
        except IndexError:
            break
    return found


def calls_ahead(settings: Settings, place: str) -> int:
    """How many calls a pool gets beyond what it can run at a time."""
    if settings.batch is not None:
        return 0
    if settings.delivery == "at_most_once":
        # What a pool holds is committed, and lost if the program dies.
        return 0
    if place == "processes":
        # They take calls in lists.
        return 256
    return min(settings.concurrency, _MOST_AHEAD[place])


# Unreported calls that are worth waking the owner for, however many wait for a handler.
WORTH_WAKING = 64
