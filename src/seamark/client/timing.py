"""Time in the client: one deadline per operation, and how long to wait before the next try.

An operation that passes its deadline on, in place of a timeout per step, cannot take longer than its caller allowed.
All times are those of one monotonic clock, in seconds; a core is given milliseconds by its shell (``now_ms``).

Waits double from a start to a limit, with jitter, as in Kafka's client. The jitter spreads the clients of a broker that
came back; without it they would all return at the same moment. The random source is passed in, so that a simulation
repeats itself.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from numbers import Real
from typing import Protocol

from seamark.client.errors import OperationTimedOut
from seamark.errors import UsageError

MonotonicClock = Callable[[], float]


def now_ms(clock: MonotonicClock = time.monotonic) -> int:
    """The monotonic time that cores are driven with."""
    return int(clock() * 1000)


class Deadline:
    """A point in time, with the span it was made from for messages."""

    __slots__ = ("_clock", "at", "seconds")

    def __init__(self, seconds: float, clock: MonotonicClock = time.monotonic) -> None:
        if not isinstance(seconds, int | float | Real) or not seconds >= 0:
            raise UsageError(f"a timeout must be a number of seconds >= 0, got {seconds!r}")
        self._clock = clock
        self.seconds = float(seconds)
        self.at = clock() + self.seconds

    @classmethod
    def after(cls, timeout: float | None, default_ms: int | float, clock: MonotonicClock = time.monotonic) -> Deadline:
        """The caller's timeout in seconds, or else a configured one in milliseconds."""
        return cls(default_ms / 1000 if timeout is None else timeout, clock)

    @classmethod
    def never(cls) -> Deadline:
        return cls(math.inf)

    @property
    def remaining(self) -> float:
        """Seconds left, never negative; infinite for a deadline that does not come."""
        return max(0.0, self.at - self._clock())

    @property
    def remaining_ms(self) -> int:
        """Whole milliseconds left, at most what Kafka's 32-bit timeouts can carry."""
        left = self.remaining
        return 2**31 - 1 if left > 2**31 / 1000 - 1 else int(left * 1000)

    @property
    def is_over(self) -> bool:
        return self._clock() >= self.at

    def at_most(self, seconds: float) -> float:
        """Seconds to wait for something that has a limit of its own."""
        return min(self.remaining, seconds)

    def check(self, operation: str, last_error: BaseException | None = None) -> None:
        """Raise OperationTimedOut when it is over."""
        if self.is_over:
            raise self.timed_out(operation, last_error)

    def timed_out(self, operation: str, last_error: BaseException | None = None) -> OperationTimedOut:
        error = OperationTimedOut(operation, self.seconds, last_error)
        error.__cause__ = last_error
        return error

    def __repr__(self) -> str:
        return f"Deadline({self.remaining:.3f} of {self.seconds:g} s left)"


class RandomSource(Protocol):
    """As much of ``random.Random`` as a wait needs."""

    def uniform(self, a: float, b: float, /) -> float: ...


class ExponentialBackoff:
    """``initial_ms``, twice that, … up to ``max_ms``, each moved by up to ``jitter`` of itself in either direction.

    >>> [ExponentialBackoff(50, 1000, jitter=0).wait_ms(failures) for failures in (1, 2, 6)]
    [50.0, 100.0, 1000]
    """

    __slots__ = ("_random", "initial_ms", "jitter", "max_ms")

    def __init__(
        self, initial_ms: float, max_ms: float, *, jitter: float = 0.2, random_source: RandomSource | None = None
    ) -> None:
        self.initial_ms = initial_ms
        # Kafka lets the limit be configured below the start; the start then counts.
        self.max_ms = max(initial_ms, max_ms)
        self.jitter = jitter
        self._random = random_source if random_source is not None else random.Random()

    def wait_ms(self, failures: int) -> float:
        """How long to wait after so many failures in a row; nothing before the first."""
        if failures <= 0 or self.initial_ms <= 0:
            return 0
        # 2**60 is beyond any limit: the exponent is bounded so that a float never overflows.
        wait = min(self.max_ms, self.initial_ms * 2.0 ** min(failures - 1, 60))
        if not self.jitter:
            return wait
        # The limit holds for the jittered value too: "max" in Kafka's key is a promise to the user.
        return min(self.max_ms, wait * self._random.uniform(1 - self.jitter, 1 + self.jitter))
