"""What the owner is told by other threads: calls that ended, and things to do. Bulk in, bulk out, no lock.

Deques are appended to by any thread and emptied by the owner. Waking a thread costs more than a small handler, so it is
done only if the owner waits, and not for each call: see ``Pool``. The order makes it right: the owner says that it
waits before it looks for the last time, others append before they look whether it waits.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from seamark.parallel.core.actions import Action, StartCall

Command = Callable[[float], list[Action]]


class Mailbox:
    def __init__(self) -> None:
        self.succeeded: deque[StartCall] = deque()
        self.failed: deque[tuple[StartCall, BaseException]] = deque()
        # Run by the owner, between events.
        self.commands: deque[Command] = deque()
        self.is_waiting = False
        # Not an Event: a signal handler, which runs in the middle of anything, may wake its own thread.
        self._arrived: SimpleQueue[None] = SimpleQueue()
        self._wake: Callable[[], Any] = self._wake_here

    def __bool__(self) -> bool:
        return bool(self.succeeded or self.failed or self.commands)

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
        found = self.succeeded
        return [found.popleft() for _ in range(len(found))]
