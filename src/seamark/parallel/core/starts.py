"""When handler calls start: at once for single records, and for batches when one is full or has waited long enough."""

from __future__ import annotations

from seamark.parallel.core.actions import StartCall
from seamark.parallel.core.lanes import Lanes
from seamark.parallel.settings import Batch


class Starts:
    def __init__(self, lanes: Lanes, batch: Batch | None) -> None:
        self._lanes = lanes
        self._is_single = batch is None
        self._size = batch.records if batch else 1
        self._wait = batch.wait if batch else 0.0
        # When records that could start were first left waiting for a fuller batch.
        self._filling_since: float | None = None

    def calls(self, now: float) -> list[StartCall]:
        """The calls that start now."""
        lanes = self._lanes
        if self._is_single:
            return lanes.take_singles(now)
        started: list[StartCall] = []
        while lanes.ready_count and lanes.calls < lanes.concurrency:
            if lanes.waiting_count < self._size:
                if self._filling_since is None:
                    self._filling_since = now
                if now - self._filling_since < self._wait:
                    return started
            self._filling_since = None
            started.append(StartCall(lanes.take_batch(self._size, now)))
        self._filling_since = None
        return started

    def next_at(self) -> float | None:
        """When a batch that is filling starts as it is."""
        return None if self._filling_since is None else self._filling_since + self._wait
