"""Where logs live, and when what was appended to them is synced.

In memory nothing is ever lost short of the process, so every append is acknowledged at once. In a directory the
durability decides: with ``os`` an append counts when the operating system has it, and a sync follows within about a
second; with ``commit`` it counts after a sync, and all that was appended while one sync ran share the next. Syncs run
in a thread of their own, one at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from seamark.broker.log_replay import replay_headers
from seamark.errors import SeamarkError
from seamark.storage.errors import StorageFailed
from seamark.storage.filesystem import Filesystem
from seamark.storage.log import Log
from seamark.storage.memory_filesystem import MemoryFilesystem
from seamark.storage.real_filesystem import RealFilesystem
from seamark.storage.settings import Durability
from seamark.storage.sync import PendingSync

if TYPE_CHECKING:
    from seamark.broker.broker_clock import BrokerClock
    from seamark.broker.loop_timers import LoopTimers
    from seamark.broker.partition import Partition

_log = logging.getLogger("seamark.broker")

_SYNC_SECONDS = 1.0
_Outcome = list[tuple["Partition", PendingSync, StorageFailed | None]]


class LogStorage:
    """Owned by the event loop's thread."""

    def __init__(self, directory: str | None, durability: Durability, clock: BrokerClock, timers: LoopTimers) -> None:
        self.directory = directory or "memory"
        self.is_in_memory = directory is None
        self.filesystem: Filesystem = MemoryFilesystem() if directory is None else RealFilesystem()
        self.durability = Durability.OS if directory is None else durability
        self.acknowledges_at_once = self.durability is Durability.OS
        # A fault: every append fails as on a full disk.
        self.is_full = False
        self._clock = clock
        self._timers = timers
        self._dirty: dict[Partition, None] = {}
        self._waiting: dict[Partition, list[tuple[int, Callable[[StorageFailed | None], None]]]] = defaultdict(list)
        self._is_sync_planned = False
        self._sync: asyncio.Future[_Outcome] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def open_log(self, partition: Partition) -> Log:
        """Open a partition's log and work out what its batches say about producers and leader epochs."""
        log = Log.open(
            self.filesystem,
            self.log_directory(partition.name),
            partition.topic.config.log_settings,
            now_ms=self._clock.now_ms(),
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
        elif self._sync is None:
            asyncio.get_running_loop().call_soon(self._begin_sync)

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
        if self._sync is not None:
            return
        pending: list[tuple[Partition, PendingSync]] = []
        dirty, self._dirty = self._dirty, {}
        for partition in dirty:
            try:
                work = partition.log.begin_sync()
            except StorageFailed as error:
                self._settle(partition, error)
                continue
            if work is None:
                self._settle(partition, None)
            else:
                pending.append((partition, work))
        if not pending:
            self._is_sync_planned = False
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="seamark-sync")
        self._sync = asyncio.get_running_loop().run_in_executor(self._thread, _run_all, pending)
        self._sync.add_done_callback(self._finish_sync)

    def _finish_sync(self, future: asyncio.Future[_Outcome]) -> None:
        self._sync = None
        self._is_sync_planned = False
        if future.cancelled():
            return
        for partition, work, error in future.result():
            if not partition.is_deleted:
                partition.log.finish_sync(work, error)
                self._settle(partition, error)
                partition.synced()
        if self._dirty:
            self._plan_sync()

    def _settle(self, partition: Partition, error: StorageFailed | None) -> None:
        waiting = self._waiting.pop(partition, None)
        if waiting is None:
            return
        end = partition.log.durable_end
        left = []
        for end_offset, callback in waiting:
            if error is not None or end_offset <= end:
                try:
                    callback(error)
                except SeamarkError:
                    _log.exception("%s: an answer after a sync failed", partition.name)
            else:
                left.append((end_offset, callback))
        if left:
            self._waiting[partition] = left
            self.appended(partition)

    def forget(self, partition: Partition) -> None:
        """The partition is being deleted: whoever waits for it will not be served."""
        self._dirty.pop(partition, None)
        for _, callback in self._waiting.pop(partition, ()):
            callback(StorageFailed(partition.name, None, "the topic was deleted"))

    async def close(self) -> None:
        """Wait for a sync that runs; the logs themselves are closed by their partitions."""
        self.acknowledges_at_once = True
        if self._sync is not None:
            await asyncio.wait([self._sync])
        if self._thread is not None:
            self._thread.shutdown()


def _run_all(pending: list[tuple[Partition, PendingSync]]) -> _Outcome:
    outcome: _Outcome = []
    for partition, work in pending:
        try:
            work.run()
        except StorageFailed as error:
            outcome.append((partition, work, error))
        else:
            outcome.append((partition, work, None))
    return outcome
