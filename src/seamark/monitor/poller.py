"""Looks at a cluster again and again, and keeps what it saw: never two looks at once, never an end for one error.

One thread owns it. Readers get the last whole look; one that failed leaves the last good one standing with the reason
and its age beside it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seamark.client.admin import Admin
from seamark.errors import SeamarkError
from seamark.monitor.lag_report import group_ages
from seamark.monitor.scan import Scan, scan
from seamark.monitor.watching import Watching
from seamark.rules.time_lag import TimeLag
from seamark.topic_partition import TopicPartition

_log = logging.getLogger("seamark.monitor")


@dataclass(frozen=True, slots=True)
class Look:
    """One look; ``seconds`` is how long it took."""

    scan: Scan
    times: dict[tuple[str, TopicPartition], TimeLag]
    at_ms: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Seen:
    """The last good look, how many there were, how many failed, and why the last one did if it did."""

    look: Look | None = None
    looks: int = 0
    failures: int = 0
    error: str | None = None


class Poller:
    """``every`` seconds from one look's start to the next, or as soon as the last has ended if it took longer."""

    def __init__(
        self,
        admin: Admin,
        *,
        groups: Sequence[str] | None = None,
        every: float = 15.0,
        reset: str = "earliest",
        on_look: Callable[[Look], object] | None = None,
        watching: Watching | None = None,
    ) -> None:
        self.watching = Watching() if watching is None else watching
        self._admin = admin
        self._groups = groups
        self._every = every
        self._reset = reset
        self._on_look = on_look
        self._seen = Seen()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seamark-poller", daemon=True)

    @property
    def seen(self) -> Seen:
        return self._seen

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout: float | None = None) -> None:
        """Look no more; a look that is under way is waited for, at most ``timeout`` seconds."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def look_once(self) -> None:
        """One look, on the caller's thread; a failure is noted, not raised."""
        started = time.monotonic()
        seen = self._seen
        try:
            found = scan(self._admin, self._groups, reset=self._reset)
            at_ms = int(time.time() * 1000)
            times = group_ages(self._admin, found, at_ms, reset=self._reset)
        except SeamarkError as error:
            if not self._stop.is_set():
                _log.warning("The cluster could not be looked at: %s", error)
            self._seen = Seen(seen.look, seen.looks, seen.failures + 1, str(error))
            return
        self.watching.add(found, at_ms)
        look = Look(found, times, at_ms, time.monotonic() - started)
        self._seen = Seen(look, seen.looks + 1, seen.failures)
        if self._on_look is not None:
            self._on_look(look)

    def _run(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            self.look_once()
            self._stop.wait(max(0.1, self._every - (time.monotonic() - started)))
