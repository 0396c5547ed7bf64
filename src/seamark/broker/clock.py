"""The broker's time: the machine's clocks plus what tests have added.

``monotonic`` is for deadlines and never goes back; ``now_ms`` is what records and commits are stamped with.
``advance`` moves both by the same amount, so sessions, retention and expiration follow; whoever calls it also wakes
the timers. ``restore`` sets ``now_ms`` right again, as when a machine's clock is set back.
"""

from __future__ import annotations

import time


class BrokerClock:
    """One for all nodes of a broker."""

    __slots__ = ("_wall_ahead", "ahead")

    def __init__(self) -> None:
        # Seconds that tests have added.
        self.ahead = 0.0
        self._wall_ahead = 0.0

    def monotonic(self) -> float:
        """Seconds on a scale of its own."""
        return time.monotonic() + self.ahead

    def real_monotonic(self) -> float:
        """Seconds on the machine's clock, for what concerns clients: they do not know of the time that tests add."""
        return time.monotonic()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int((time.time() + self._wall_ahead) * 1000)

    def advance(self, seconds: float) -> None:
        self.ahead += seconds
        self._wall_ahead += seconds

    def restore(self) -> None:
        """Stamp with the machine's time again; deadlines that were set keep their distance."""
        self._wall_ahead = 0.0
