"""Which failed records somebody was told about, and who is told about the others.

A failure is told when its delivery is looked at (``result``, ``exception``, ``await``, a callback), or when ``flush``
or ``close`` raises it. Until then it is in the producer's ``UntoldFailures``. One whose delivery nobody holds any more
can only be told by a flush: it is logged, together with those of the same topic and cause, unless a flush comes first.

Failures are added on the I/O thread; any thread may look, and take what there is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from seamark.client.errors import BrokerError, ClientError, DeliveryFailed, FailedTo
from seamark.client.net.io_thread import IoThread
from seamark.readable_log import readable_logger

log = readable_logger("seamark.client")

# A flush that follows soon raises what would be logged; and failures come in crowds.
_LOGGED_AFTER_S = 1.0
# Of one topic and cause not more often: what fails goes on failing.
_LOGGED_EVERY_S = 60.0

_Key = tuple[str, str]


@dataclass(slots=True)
class _Untold:
    """Failures of one topic and cause that nobody was told about."""

    first: ClientError
    count: int = 0
    # Of them, those that nobody can look at any more, and those that were logged.
    dropped: int = 0
    logged: int = 0


class FailedBatch:
    """A batch that was not delivered. It is kept by the deliveries, and by nothing else."""

    __slots__ = ("_book", "_seen", "count", "error", "key", "round")

    def __init__(self, book: UntoldFailures, topic: str, count: int, error: ClientError, seen: Iterable[int]) -> None:
        self._book = book
        # Places in the batch.
        self._seen = set(seen)
        self.key = topic, _cause(error)
        self.count = count
        self.error = error
        self.round = book.round

    @property
    def unseen(self) -> int:
        return self.count - len(self._seen)

    def look(self, places: Iterable[int]) -> None:
        """Somebody was given the error of these records."""
        with self._book.lock:
            before = len(self._seen)
            self._seen.update(places)
            self._book.told(self, len(self._seen) - before)

    def __del__(self) -> None:
        # Wherever the collector runs, perhaps with locks held: handed over, not done here.
        if self.count > len(self._seen):
            self._book.drop_soon(self.key, self.count - len(self._seen), self.round)


class UntoldFailures:
    """Those of one producer."""

    def __init__(self, io: IoThread) -> None:
        self.lock = threading.Lock()
        # Counts how often everything was taken: a failure of an earlier round was told.
        self.round = 0
        self._io = io
        self._untold: dict[_Key, _Untold] = {}
        self._settled = 0
        self._logging: dict[_Key, asyncio.TimerHandle] = {}
        self._logged_at: dict[_Key, float] = {}

    # -- on the I/O thread

    def delivered(self, count: int) -> None:
        with self.lock:
            self._settled += count

    def failed(self, topic: str, count: int, error: ClientError, seen: Iterable[int]) -> FailedBatch:
        """Records were not delivered; the error of those in ``seen`` is handed to callbacks."""
        with self.lock:
            batch = FailedBatch(self, topic, count, error, seen)
            self._settled += count
            if batch.unseen:
                self._untold.setdefault(batch.key, _Untold(error)).count += batch.unseen
        return batch

    def _dropped(self, key: _Key, count: int, round_: int) -> None:
        with self.lock:
            untold = self._untold.get(key)
            if untold is None or round_ != self.round:
                return
            untold.dropped += count
        if key not in self._logging:
            loop = self._io.loop
            since = loop.time() - self._logged_at.get(key, -_LOGGED_EVERY_S)
            self._logging[key] = loop.call_later(max(_LOGGED_AFTER_S, _LOGGED_EVERY_S - since), self._log, key)

    def _log(self, key: _Key) -> None:
        del self._logging[key]
        with self.lock:
            untold = self._untold.get(key)
            if untold is None or not untold.dropped:
                return
            count, untold.dropped = untold.dropped, 0
            untold.logged += count
        self._logged_at[key] = self._io.loop.time()
        what = "record was" if count == 1 else "records were"
        log.error("%d %s not delivered to topic %r: %s", count, what, key[0], untold.first)

    # -- from any thread

    def drop_soon(self, key: _Key, count: int, round_: int) -> None:
        if self._io.owner_is_here and not self._io.loop.is_closed():
            self._io.loop.call_soon_threadsafe(self._dropped, key, count, round_)

    def told(self, batch: FailedBatch, count: int) -> None:
        """Under the lock: these need not be told any more."""
        if batch.round == self.round and count:
            untold = self._untold[batch.key]
            untold.count -= count
            if not untold.count:
                del self._untold[batch.key]

    def take(self, waited_for: Iterable[FailedBatch] = ()) -> DeliveryFailed | None:
        """Everything untold, as an error to raise; who takes it tells it.

        What another thread took in the meantime is told again if this one waited for it too.
        """
        with self.lock:
            counts = {key: untold.count for key, untold in self._untold.items()}
            first = {key: untold.first for key, untold in self._untold.items()}
            for batch in waited_for:
                if batch.round < self.round and batch.unseen:
                    counts[batch.key] = counts.get(batch.key, 0) + batch.unseen
                    first.setdefault(batch.key, batch.error)
            sent = self._begin_round()
        failures = [FailedTo(key[0], count, first[key]) for key, count in counts.items()]
        return DeliveryFailed(failures, sent) if failures else None

    def log_rest(self) -> None:
        """Log what is untold and was not logged: nobody will ask any more."""
        with self.lock:
            left = {key: (untold.count - untold.logged, untold.first) for key, untold in self._untold.items()}
            sent = self._begin_round()
        failures = [FailedTo(topic, count, error) for (topic, _), (count, error) in left.items() if count > 0]
        if failures:
            log.error("%s", DeliveryFailed(failures, sent))

    def _begin_round(self) -> int:
        self._untold = {}
        self.round += 1
        sent, self._settled = self._settled, 0
        return sent


def _cause(error: ClientError) -> str:
    return error.code.name if isinstance(error, BrokerError) else type(error).__name__
