"""What is held of requests that are not complete or not handled yet, by connection and in sum.

Beyond the limit those go who have held much for long. Neither of the two decides alone: a busy producer holds much for
a moment, and a consumer that waits for records a little for long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

# So that what came just now counts for something too.
_LEAST_SECONDS = 0.001
_SPARED_SECONDS = 1.0


class Holder(Protocol):
    def close(self, reason: str) -> None:
        """End the connection; it must be taken out of here by that."""

    def __hash__(self) -> int: ...


class HeldBytes:
    def __init__(self, limit: Callable[[], int], now: Callable[[], float]) -> None:
        self._limit = limit
        self._now = now
        # Bytes, and since when there are any.
        self._held: dict[Holder, tuple[int, float]] = {}
        self.total = 0

    def __len__(self) -> int:
        return len(self._held)

    def take_out(self, holder: Holder) -> int:
        """Forget a connection, and return what it held."""
        byte_count, _ = self._held.pop(holder, (0, 0.0))
        self.total -= byte_count
        return byte_count

    def change(self, holder: Holder, byte_count: int) -> None:
        """Take note of what a connection holds now; if all is too much then, some are closed, possibly this one."""
        before, since = self._held.get(holder, (0, 0.0))
        if not byte_count:
            self.take_out(holder)
            return
        self._held[holder] = byte_count, since if before else self._now()
        self.total += byte_count - before
        if byte_count > before and self.total > self._limit():
            self._make_room()

    def _make_room(self) -> None:
        """A quarter at once: looking at all of them for each request that comes would be a burden of its own."""
        now, limit, total = self._now(), self._limit(), self.total
        # Far below what the others hold.
        small = total // len(self._held) // 4
        burdens = {
            holder: (size > small, size * (now - since + _LEAST_SECONDS))
            for holder, (size, since) in self._held.items()
        }
        for holder in sorted(burdens, key=burdens.__getitem__, reverse=True):
            size, since = self._held[holder]
            if self.total <= limit * 3 // 4:
                break
            # Room for later is not worth a request that is small or on its way.
            if self.total > limit or (size > small and now - since > _SPARED_SECONDS):
                holder.close(f"had {size} bytes of unfinished requests when those of all clients reached {total}")
