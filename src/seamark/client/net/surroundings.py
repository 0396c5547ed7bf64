"""What a client takes from the process around it: time, chance, the place of its log lines, the thread of its I/O.

Everything else that a client depends on is its configuration and its event loop. A simulation gives a client its own
surroundings and an event loop of its own, and runs the same code in virtual time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from seamark.client.config.config import ClientConfig
from seamark.client.net.client_log import ClientLog
from seamark.client.net.io_thread import IoRunner, IoThread
from seamark.client.timing import Deadline, ExponentialBackoff, MonotonicClock


class Surroundings:
    """``monotonic`` and ``wall`` give seconds; each wait with jitter is given a source of its own."""

    __slots__ = ("io", "make_log", "make_random", "monotonic", "wall")

    def __init__(
        self,
        *,
        monotonic: MonotonicClock = time.monotonic,
        wall: Callable[[], float] = time.time,
        make_random: Callable[[], random.Random] = random.Random,
        make_log: Callable[[ClientConfig], ClientLog] = ClientLog,
        io: Callable[[], IoRunner] = IoThread.get,
    ) -> None:
        self.monotonic = monotonic
        self.wall = wall
        self.make_random = make_random
        self.make_log = make_log
        self.io = io

    def now_ms(self) -> int:
        """The monotonic time that cores are driven with."""
        return int(self.monotonic() * 1000)

    def wall_ms(self) -> int:
        return int(self.wall() * 1000)

    def deadline(self, seconds: float) -> Deadline:
        return Deadline(seconds, self.monotonic)

    def backoff(self, initial_ms: float, max_ms: float) -> ExponentialBackoff:
        return ExponentialBackoff(initial_ms, max_ms, random_source=self.make_random())


# Those of every client that is told nothing else.
PROCESS = Surroundings()
