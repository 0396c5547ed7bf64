"""Says which addresses cannot be reached, while it is so: soon, not at every attempt, and once more when it is over.

Connecting is retried for as long as somebody needs the broker, and callers may wait long; the log says meanwhile what
they wait for. An address is named when attempts to connect have gone on for ``AFTER_S`` without success, and again
every ``AGAIN_S``. One that nobody tries to reach any more is not spoken of.

Owned by the I/O loop.
"""

from __future__ import annotations

import asyncio
import logging
import time

from seamark.client.net.client_log import ClientLog
from seamark.client.net.node import NodeConnection
from seamark.client.timing import MonotonicClock

AFTER_S = 1.0
AGAIN_S = 60.0
# Retries are at most a second apart; who has not tried for longer has given up.
_GIVEN_UP_S = 3.0


class _Trying:
    __slots__ = ("connection", "is_said", "last_attempt", "since", "timer")

    def __init__(self, connection: NodeConnection, timer: asyncio.TimerHandle, now: float) -> None:
        self.connection = connection
        self.timer = timer
        self.since = self.last_attempt = now
        self.is_said = False


class Reachability:
    def __init__(self, log: ClientLog, clock: MonotonicClock = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        # Set while nobody uses the client.
        self.is_silent = False
        self._trying: dict[str, _Trying] = {}

    def attempted(self, connection: NodeConnection) -> None:
        """An attempt to connect begins."""
        address = connection.node.address
        trying = self._trying.get(address)
        if trying is None:
            timer = asyncio.get_running_loop().call_later(AFTER_S, self._look, address)
            self._trying[address] = _Trying(connection, timer, self._clock())
        else:
            trying.connection = connection
            trying.last_attempt = self._clock()

    def reached(self, connection: NodeConnection) -> None:
        """A connection is open."""
        address = connection.node.address
        trying = self._trying.pop(address, None)
        if trying is None:
            return
        trying.timer.cancel()
        if trying.is_said:
            seconds = self._clock() - trying.since
            text = f"{address} can be reached again, after {seconds:.0f} s"
            self._log.say(logging.WARNING, "reached", text, address=address)

    def close(self) -> None:
        for each in self._trying.values():
            each.timer.cancel()
        self._trying.clear()

    def _look(self, address: str) -> None:
        trying = self._trying[address]
        connection = trying.connection
        is_given_up = not connection.is_connecting and self._clock() - trying.last_attempt > _GIVEN_UP_S
        if is_given_up or connection.is_closed or self.is_silent:
            del self._trying[address]
            return
        trying.is_said = True
        seconds = self._clock() - trying.since
        reason = connection.progress if connection.last_error is None else connection.last_error.reason
        text = f"{address} has been unreachable for {seconds:.0f} s, still trying: {reason}"
        self._log.say(logging.WARNING, "unreachable", text, address=address, reason=reason)
        trying.timer = asyncio.get_running_loop().call_later(AGAIN_S, self._look, address)
