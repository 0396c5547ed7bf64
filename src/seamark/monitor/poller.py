"""Looks at a cluster again and again, and keeps what it saw: never two looks at once, never an end for one error.

One thread owns it. Readers get the last whole look; one that failed leaves the last good one standing with the reason
and its age beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seamark.client import Admin
from seamark.errors import SeamarkError
from seamark.monitor.group_ages import GroupAges
from seamark.monitor.scan import Scan, scan
from seamark.monitor.watching import Watching
from seamark.readable_log import readable_logger
from seamark.rules.time_lag import TimeLag
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.monitor")
# A look every few seconds reads fewer records than one that somebody asked for.
_MOST_READS = 32


@dataclass(frozen=True, slots=True)
class Look:
    """One look; ``seconds`` is how long it took, and ``ended`` when that was on the monotonic clock."""

    scan: Scan
    times: dict[tuple[str, TopicPartition], TimeLag]
    at_ms: int
    seconds: float
    ended: float

    @property
    def age(self) -> float:
        """The seconds since, whatever time the clock on the wall was set to meanwhile."""
        return time.monotonic() - self.ended


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
        reset: str | None = None,
        on_look: Callable[[Look], object] | None = None,
        watching: Watching | None = None,
    ) -> None:
        self.watching = Watching() if watching is None else watching
        self._admin = admin
        self._groups = groups
        self._every = every
        self._reset = reset
        self._ages = GroupAges(admin, reset=reset, most_reads=_MOST_READS)
        self._on_look = on_look
        self._seen = Seen()
        # Groups that were named in the log and have not been read since.
        self._unreadable: frozenset[str] = frozenset()
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
        """One look, on the caller's thread; a failure is noted, whatever it was, not raised."""
        seen = self._seen
        try:
            look = self._look()
        except Exception as error:  # noqa: BLE001 - one answer that nobody foresaw must not end the looking for good
            self._note("The cluster could not be polled", error, seen)
            return
        self._seen = seen = Seen(look, seen.looks + 1, seen.failures)
        if self._on_look is None:
            return
        try:
            self._on_look(look)
        except Exception as error:  # noqa: BLE001 - as above
            self._note("The result of a poll could not be processed", error, seen)

    def _look(self) -> Look:
        started = time.monotonic()
        scanned = scan(self._admin, self._groups, reset=self._reset, whole_topics=True)
        at_ms = int(time.time() * 1000)
        self._note_unreadable(scanned)
        times = self._ages.look(scanned, at_ms)
        ended = time.monotonic()
        self.watching.add(scanned, int(ended * 1000))
        return Look(scanned, times, at_ms, ended - started, ended)

    def _note_unreadable(self, scanned: Scan) -> None:
        """Log groups that could not be read, once until they are."""
        unreadable = scanned.unreadable
        for name in sorted(unreadable.keys() - self._unreadable):
            _log.warning("Group %r: %s", name, unreadable[name])
        for name in sorted(self._unreadable - unreadable.keys()):
            _log.warning("Group %r can be read again, or no longer exists", name)
        self._unreadable = frozenset(unreadable)

    def _note(self, what: str, error: Exception, seen: Seen) -> None:
        is_foreseen = isinstance(error, SeamarkError)
        # str() of a KeyError is only the key, and that of others is empty: their kind says most.
        reason = str(error) if is_foreseen else f"unexpected {type(error).__name__}: {error}".removesuffix(": ")
        # A look that is under way while the client is closed fails for that alone.
        if not self._stop.is_set():
            if is_foreseen:
                _log.warning("%s: %s", what, error)
            else:
                _log.error("%s", what, exc_info=error)
        self._seen = Seen(seen.look, seen.looks, seen.failures + 1, reason)

    def _run(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            self.look_once()
            self._stop.wait(max(0.1, self._every - (time.monotonic() - started)))
