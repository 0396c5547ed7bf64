"""Where logs live, and when what was appended to them is synced.

In memory nothing is ever lost short of the process, so every append is acknowledged at once. In a directory the
durability decides: with ``os`` an append counts when the operating system has it, and a sync follows within about a
second; with ``commit`` it counts after a sync, and all that was appended while one sync ran share the next. Syncs run
in a thread of their own, one at a time. A sync for which the process has no file descriptor left is tried again; who
waits for it goes on waiting.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from seamark.broker.clock import BrokerClock, Timers
from seamark.broker.log.fillable_disk import FillableDisk
from seamark.broker.log.history import replay_headers
from seamark.broker.log.partition import Partition
from seamark.broker.sharing.file_limits import most_open_segments
from seamark.broker.sharing.rare_line import RareLine
from seamark.readable_log import readable_logger
from seamark.storage.errors import StorageFailed, TooManyOpenFiles
from seamark.storage.files.filesystem import Filesystem
from seamark.storage.files.memory import MemoryFilesystem
from seamark.storage.files.open_files import OpenFiles
from seamark.storage.files.real import RealFilesystem
from seamark.storage.log import Log
from seamark.storage.settings import Durability
from seamark.storage.sync import PendingSync

_log = readable_logger("seamark.broker")

# The end of a directory's name whose log could not be removed; the next start does it.
DELETED = ".deleted"

_SYNC_SECONDS = 1.0
_Pending = list[tuple[Partition, PendingSync]]
SyncOutcome = list[tuple[Partition, PendingSync, StorageFailed | None]]


class UnexpectedFailure(StorageFailed):
    """A sync ended with an error that is no disk's: a bug, which its cause shows."""


class Syncs(Protocol):
    """Where syncs run, one at a time; ``SyncThread`` is one."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call in the event loop's next turn."""

    def begin(self, work: Callable[[], SyncOutcome], done: Callable[[Callable[[], SyncOutcome]], None]) -> None:
        """Run the work; ``done`` is called on the event loop with what returns its result or raises its error.

        Raises RuntimeError, and calls nobody, if it cannot be run.
        """

    async def finish(self) -> None:
        """Wait for the work under way."""

    def stop(self) -> None: ...


class SyncThread:
    """A thread beside the event loop, which begins with the first sync."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._running: asyncio.Future[SyncOutcome] | None = None

    def call_soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    def begin(self, work: Callable[[], SyncOutcome], done: Callable[[Callable[[], SyncOutcome]], None]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="seamark-sync")
        self._running = asyncio.get_running_loop().run_in_executor(self._thread, work)
        self._running.add_done_callback(lambda future: done(future.result))

    async def finish(self) -> None:
        if self._running is not None:
            await asyncio.wait([self._running])

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()


class LogStorage:
    """Owned by the event loop's thread. ``disk`` and ``open_files`` are for those who have a disk of their own."""

    def __init__(
        self,
        directory: str | None,
        durability: Durability,
        clock: BrokerClock,
        timers: Timers,
        *,
        disk: Filesystem | None = None,
        open_files: OpenFiles | None = None,
        syncs: Syncs | None = None,
    ) -> None:
        self.directory = directory or "memory"
        self.is_in_memory = directory is None
        if disk is None:
            disk = MemoryFilesystem() if directory is None else RealFilesystem()
        self.filesystem = FillableDisk(disk, lambda: self.is_full)
        if open_files is None:
            open_files = OpenFiles(None if directory is None else most_open_segments())
        self._open_files = open_files
        self._syncs: Syncs = syncs or SyncThread()
        self.durability = Durability.OS if directory is None else durability
        self.acknowledges_at_once = self.durability is Durability.OS
        # A fault: every write fails as on a full disk.
        self.is_full = False
        self._clock = clock
        self._timers = timers
        self._dirty: dict[Partition, None] = {}
        self._waiting: dict[Partition, list[tuple[int, Callable[[StorageFailed | None], None]]]] = defaultdict(list)
        self._is_sync_planned = False
        self._is_syncing = False
        # Once closed nothing is synced here any more: a log that is closed syncs itself.
        self._is_closed = False
        # Failures that nobody thought of and that the log file has.
        self._told: set[str] = set()
        self._shortage = RareLine(_log, clock)

    def open_log(self, partition: Partition) -> Log:
        """Open a partition's log and work out what its batches say about producers and leader epochs."""
        log = Log.open(
            self.filesystem,
            self.log_directory(partition.name),
            partition.topic.config.log_settings,
            now_ms=self._clock.now_ms(),
            open_files=self._open_files,
        )
        if log.log_end > log.log_start:
            replay_headers(log, partition.producers, partition.epochs)
        return log

    def log_directory(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def has_log(self, partition: Partition) -> bool:
        return self.filesystem.exists(self.log_directory(partition.name))

    def appended(self, partition: Partition) -> None:
        """Take note that the partition has something to sync."""
        if partition not in self._dirty:
            self._dirty[partition] = None
            if not self._is_sync_planned and not self.is_in_memory:
                self._plan_sync()

    def _plan_sync(self) -> None:
        self._is_sync_planned = True
        if self.acknowledges_at_once:
            self._timers.call_after(_SYNC_SECONDS, self._begin_sync)
        elif not self._is_syncing:
            self._syncs.call_soon(self._begin_sync)

    def wait_for_sync(
        self, partition: Partition, end_offset: int, callback: Callable[[StorageFailed | None], None]
    ) -> None:
        self._waiting[partition].append((end_offset, callback))
        self.appended(partition)

    def sync_now(self, partition: Partition) -> None:
        """Sync in place; for logs in memory, where that costs nothing."""
        self._dirty.pop(partition, None)
        partition.log.sync()

    def _begin_sync(self) -> None:
        if self._is_syncing or self._is_closed:
            return
        pending: _Pending = []
        dirty, self._dirty = self._dirty, {}
        for partition in dirty:
            try:
                work = partition.log.begin_sync()
            except Exception as error:  # noqa: BLE001 - whoever waits for this partition must be told
                self._settle(partition, _stopped(partition, error))
                continue
            if work is None:
                self._settle(partition, None)
            else:
                pending.append((partition, work))
        if not pending:
            self._is_sync_planned = False
            return
        self._is_syncing = True
        try:
            self._syncs.begin(partial(_run_all, pending), partial(self._finish_sync, pending))
        except RuntimeError as error:
            self._is_syncing = False
            self._end_sync(_all_failed(pending, error))

    def _finish_sync(self, pending: _Pending, result: Callable[[], SyncOutcome]) -> None:
        self._is_syncing = False
        try:
            outcome = result()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - nobody may be left waiting
            outcome = _all_failed(pending, error)
        self._end_sync(outcome)

    def _end_sync(self, outcome: SyncOutcome) -> None:
        self._is_sync_planned = False
        short = [result for result in outcome if isinstance(result[2], TooManyOpenFiles)]
        for partition, work, failure in outcome:
            if not partition.is_deleted:
                self._finish_one(partition, work, failure)
        if short:
            self._is_sync_planned = True
            self._timers.call_after(_SYNC_SECONDS, self._begin_sync)
            self._shortage.say("%s: synced as soon as a file descriptor is available", short[0][2])
        elif self._dirty:
            self._plan_sync()

    def _finish_one(self, partition: Partition, work: PendingSync, error: StorageFailed | None) -> None:
        if work.owner is not partition.log:
            # The log was opened again meanwhile, which says by itself how much of it is durable.
            error = None
        try:
            partition.log.finish_sync(work, error)
        except Exception as unexpected:  # noqa: BLE001 - the others of this sync must be told all the same
            error = _stopped(partition, unexpected)
        if isinstance(error, TooManyOpenFiles):
            self._dirty[partition] = None
            return
        self._settle(partition, error)
        partition.synced()

    def _settle(self, partition: Partition, error: StorageFailed | None) -> None:
        if isinstance(error, UnexpectedFailure) and repr(error.__cause__) not in self._told:
            # Once for all the partitions that it strikes.
            self._told.add(repr(error.__cause__))
            _log.error("%s: a sync failed unexpectedly", partition.name, exc_info=error.__cause__)
        waiting = self._waiting.pop(partition, None)
        if waiting is None:
            return
        end = partition.log.durable_end
        left = []
        for end_offset, callback in waiting:
            if error is not None or end_offset <= end:
                try:
                    callback(error)
                except Exception:  # noqa: BLE001 - one answer that fails must not cost the others theirs
                    _log.exception("%s: sending a response after a sync failed", partition.name)
            else:
                left.append((end_offset, callback))
        if left:
            self._waiting[partition] = left
            self.appended(partition)

    def forget(self, partition: Partition, reason: str) -> None:
        """What was appended may be gone, or soon will be: whoever waits for its sync waits in vain."""
        self._dirty.pop(partition, None)
        for _, callback in self._waiting.pop(partition, ()):
            callback(StorageFailed(partition.name, None, reason))

    def delete_log(self, partition: Partition, log: Log) -> None:
        """Remove a log, or put it out of the way of a topic that is made under the same name."""
        try:
            log.delete()
        except StorageFailed as error:
            aside = f"{log.directory}.{partition.topic.id.hex()}{DELETED}"
            self.filesystem.rename(log.directory, aside)
            _log.warning(
                "%s: not removed (%s); it was renamed to %s, and the next start removes it", log.directory, error, aside
            )

    async def close(self) -> None:
        """Wait for a sync that runs; the logs themselves are closed by their partitions."""
        self.acknowledges_at_once = True
        await self._syncs.finish()
        self._is_closed = True
        self._syncs.stop()


def _run_all(pending: _Pending) -> SyncOutcome:
    outcome: SyncOutcome = []
    for partition, work in pending:
        try:
            work.run()
        except Exception as error:  # noqa: BLE001 - the log's owner decides what follows, on its own thread
            outcome.append((partition, work, _as_failure(partition, error)))
        else:
            outcome.append((partition, work, None))
    return outcome


def _all_failed(pending: _Pending, error: BaseException) -> SyncOutcome:
    return [(partition, work, _as_failure(partition, error)) for partition, work in pending]


def _stopped(partition: Partition, error: Exception) -> StorageFailed:
    """Make sure that the log is opened again before it is used: what was refused may be in it all the same."""
    failure = _as_failure(partition, error)
    if partition.log.writes_stopped is None:
        partition.log.stop_writes(str(failure))
    return failure


def _as_failure(partition: Partition, error: BaseException) -> StorageFailed:
    """The error itself, or for one that nobody thought of a storage error that says so."""
    if isinstance(error, StorageFailed):
        return error
    failure = UnexpectedFailure(partition.name, None, f"the sync failed unexpectedly ({type(error).__name__}: {error})")
    failure.__cause__ = error
    return failure
