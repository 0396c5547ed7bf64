"""Rates of counters over the last half minute, for those who look without a time series of their own."""

from __future__ import annotations

from collections import deque

WINDOW_SECONDS = 30.0


class Rates:
    """Fed with the counters' values now and then; a counter that starts over counts from nothing.

    >>> rates = Rates()
    >>> rates.sample(0.0, {"commits": 100})
    >>> rates.sample(10.0, {"commits": 150})
    >>> rates.per_second("commits")
    5.0
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, dict[str, int]]] = deque()

    def sample(self, now: float, values: dict[str, int]) -> None:
        samples = self._samples
        if samples and any(value < samples[-1][1].get(name, 0) for name, value in values.items()):
            samples.clear()
        samples.append((now, dict(values)))
        # One sample at or beyond the window's start stays, so that the window is always covered.
        while len(samples) > 2 and samples[1][0] <= now - WINDOW_SECONDS:
            samples.popleft()

    def per_second(self, name: str) -> float:
        if len(self._samples) < 2:
            return 0.0
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return (after.get(name, 0) - before.get(name, 0)) / (ended - began) if ended > began else 0.0
