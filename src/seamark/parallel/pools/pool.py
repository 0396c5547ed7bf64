"""What the owner wants of whoever runs handlers, in threads, on a loop or in processes alike, and how it is told.

A pool is given calls in bulk and reports each exactly once through the mailbox, whatever the handler does. It runs at
most ``concurrency`` of them at a time and may be given some more: a free handler then goes on with the next call
without waiting for the owner. Pools never look into records.

The mailbox has calls that ended, and things to do. Bulk in, bulk out, no lock: deques are appended to by any thread and
emptied by the owner. Waking a thread costs more than a small handler, so it is done only if the owner waits, and not
for each call. The order makes it right: the owner says that it waits before it looks for the last time, others append
before they look whether it waits.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from seamark.errors import SeamarkError
from seamark.parallel.core.work import Action, InFlightRecord, StartCall
from seamark.parallel.settings import Settings

# Calls can be withdrawn as long as they are not begun, so many of them do no harm.
_MOST_AHEAD = {"threads": 128, "loop": 1_024}


class CannotRunHandlers(SeamarkError):
    """A pool cannot run any more calls; the text says why and what to do."""


class Pool(Protocol):
    def start(self, calls: Sequence[StartCall]) -> None:
        """Run these; by the owner."""

    def withdraw(self) -> list[StartCall]:
        """Give back the calls that no handler has begun; by the owner. They are not reported."""

    def stands_at(self, work: InFlightRecord) -> str | None:
        """Where the handler of a running record stands; None if no handler has it."""

    def close(self, timeout: float) -> None:
        """End what is idle; calls that do not end in time are left behind and never reported."""


def taken_back(queue: deque[StartCall]) -> list[StartCall]:
    """Empty a queue that handlers take from at the same time."""
    calls = []
    while queue:
        try:
            calls.append(queue.popleft())
        except IndexError:
            break
    return calls


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


Command = Callable[[float], list[Action]]


class WakeQueue(Protocol):
    """Of ``queue.SimpleQueue``, what is used."""

    def put(self, item: None) -> None: ...

    def get(self, *, timeout: float) -> None: ...

    def get_nowait(self) -> None: ...

    def empty(self) -> bool: ...


class Mailbox:
    def __init__(self, make_queue: Callable[[], WakeQueue] = SimpleQueue) -> None:
        """``make_queue``: what the owner waits at, if it waits for mail alone."""
        self.succeeded: deque[StartCall] = deque()
        self.failed: deque[tuple[StartCall, BaseException]] = deque()
        # Calls on a loop that raised CancelledError, and whether the task that uses the pool was cancelled with them.
        self.cancelled: deque[tuple[StartCall, BaseException, bool]] = deque()
        # Run by the owner, between events.
        self.commands: deque[Command] = deque()
        self.is_waiting = False
        # Not an Event: a signal handler, which runs in the middle of anything, may wake its own thread.
        self._arrived = make_queue()
        self._wake: Callable[[], Any] = self._wake_here

    def __bool__(self) -> bool:
        return bool(self.succeeded or self.failed or self.cancelled or self.commands)

    def notify(self) -> None:
        """For any thread: something is here."""
        if self.is_waiting:
            self.is_waiting = False
            self._wake()

    def tell(self, command: Command) -> None:
        self.commands.append(command)
        self.notify()

    def wait_elsewhere(self, wake: Callable[[], Any]) -> bool:
        """The owner is about to wait for something that ``wake`` ends; False if it must not, as there is mail."""
        self._wake = wake
        self.is_waiting = True
        if self:
            self.is_waiting = False
        return self.is_waiting

    def wait_here(self, timeout: float) -> None:
        """Wait for mail alone."""
        if self.wait_elsewhere(self._wake_here) and timeout > 0:
            with contextlib.suppress(Empty):
                self._arrived.get(timeout=timeout)
        self.is_waiting = False
        # A wake that came too late for this wait is not for the next.
        while not self._arrived.empty():
            with contextlib.suppress(Empty):
                self._arrived.get_nowait()

    def _wake_here(self) -> None:
        self._arrived.put(None)

    def take_succeeded(self) -> list[StartCall]:
        calls = self.succeeded
        return [calls.popleft() for _ in range(len(calls))]
