"""One deadline per operation, handed down through everything the operation waits for.

An operation that passes its deadline on, in place of a timeout per step, cannot take longer than its caller allowed.
All times are those of one monotonic clock, in seconds; a core is given milliseconds by its shell (``now_ms``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from numbers import Real

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
            raise UsageError(f"a timeout is a number of seconds that is not negative, not {seconds!r}")
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
