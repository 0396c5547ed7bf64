"""How long to wait before the next try: doubling from a start to a limit, with jitter, as Kafka's client does.

The jitter spreads the clients of a broker that came back; without it they would all return at the same moment. The
random source is passed in, so that a simulation repeats itself.
"""

from __future__ import annotations

import random
from typing import Protocol


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
