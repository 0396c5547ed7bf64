"""What handlers did, counted where they do it: each record by its place in the log, so that a repetition is seen."""

from __future__ import annotations

import threading

from seamark.client import Record


class Processed:
    """Handlers on any thread add; anybody reads. ``distinct`` records were processed, ``repeated`` times again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[tuple[int, int]] = set()
        self._calls = 0

    def add(self, record: Record) -> None:
        with self._lock:
            self._seen.add((record.partition, record.offset))
            self._calls += 1

    @property
    def distinct(self) -> int:
        with self._lock:
            return len(self._seen)

    @property
    def repeated(self) -> int:
        with self._lock:
            return self._calls - len(self._seen)
