"""One offsets partition's log at a simulated broker: acknowledgements, syncs and compaction, each in its own time.

Everything that comes later checks ``life`` first: after an unload or a crash it belongs to a log that is gone. What the
outcomes mean is the shell's matter.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from seamark.simulation.world.books import Batch
from seamark.simulation.world.disk import Crashed
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.transcript import Event
from seamark.storage import Durability, Log, OpenFiles, PendingSync, StorageFailed
from seamark.storage.aside import Pauses


class Shell(Protocol):
    """What a partition's log needs of its broker."""

    disk_delay_ms: int
    open_files: OpenFiles

    @property
    def now_ms(self) -> int: ...

    def guard(self, call: Callable[[], None]) -> None:
        """Run a piece of the process; a crash in it ends the process."""

    def settle(self, partition: PartitionLog, batches: list[Batch]) -> None:
        """These batches are stored as far as replies need."""

    def give_up_later(self, partition: PartitionLog) -> None:
        """The log takes no more writes and has to be opened again."""


class PartitionLog:
    """``log`` is None while the partition is not open here."""

    def __init__(
        self,
        number: int,
        shell: Shell,
        loop: EventLoop,
        rng: random.Random,
        events: list[Event],
        durability: Durability,
    ) -> None:
        self.number = number
        self._shell = shell
        self._loop = loop
        self._rng = rng
        self._events = events
        self._durability = durability
        self.life = 0
        self.log: Log | None = None
        self._is_syncing = False
        # Batches that are written and wait for their acknowledgement.
        self._unsettled: deque[Batch] = deque()
        self._acknowledging_ms = 0
        self._compaction: Pauses[None] | None = None

    def begin(self) -> None:
        """The partition is loaded: look after its log from now on."""
        self._loop.call_later(1000 + int(self._rng.random() * 3000), self._maintain, self.life)

    def let_go(self) -> None:
        """Forget the log; what was under way comes to nothing."""
        self.stop_compaction()
        self.life += 1
        self.log = None
        self._is_syncing = False
        self._unsettled.clear()
        self._acknowledging_ms = 0

    def stop_compaction(self) -> None:
        compaction, self._compaction = self._compaction, None
        if compaction is not None:
            with suppress(Crashed):
                compaction.close()

    # -- acknowledgements

    def acknowledge_later(self, batch: Batch) -> None:
        """The batch is written; acknowledge it when the durability allows."""
        self._unsettled.append(batch)
        self._lose_files()
        delay_ms = self._shell.disk_delay_ms
        if self._durability is Durability.COMMIT:
            self._sync_soon()
        elif delay_ms:
            at_ms = max(self._loop.now_ms + int(self._rng.random() * delay_ms), self._acknowledging_ms)
            self._acknowledging_ms = at_ms
            self._loop.call_at(at_ms, self._acknowledge, self.life)
        else:
            self._loop.call_later(0, self._acknowledge, self.life)

    def _lose_files(self) -> None:
        """Now and then files are given up that others would need: those of segments that are not synced too."""
        if self._rng.random() < 0.3:
            self._shell.open_files.shrink_to(int(self._rng.random() * 2))

    def _acknowledge(self, life: int) -> None:
        if self.life == life and self._unsettled:
            self._shell.guard(lambda: self._shell.settle(self, [self._unsettled.popleft()]))

    # -- syncs

    def _sync_soon(self) -> None:
        if not self._is_syncing:
            self._is_syncing = True
            self._loop.call_later(0, self._begin_sync, self.life)

    def _begin_sync(self, life: int) -> None:
        if self.life == life:
            self._shell.guard(self._start_sync)

    def _start_sync(self) -> None:
        assert self.log is not None
        try:
            pending = self.log.begin_sync()
        except StorageFailed:
            self._shell.give_up_later(self)
            return
        if pending is None:
            self._is_syncing = False
            return
        self._lose_files()
        delay_ms = 1 + int(self._rng.random() * (self._shell.disk_delay_ms or 4))
        self._loop.call_later(delay_ms, self._end_sync, self.life, pending)

    def _end_sync(self, life: int, pending: PendingSync) -> None:
        if self.life == life:
            self._shell.guard(lambda: self._run_sync(pending))

    def _run_sync(self, pending: PendingSync) -> None:
        log = self.log
        assert log is not None
        try:
            pending.run()
        except StorageFailed as error:
            self._complain(error)
            log.finish_sync(pending, error)
            self._shell.give_up_later(self)
            return
        log.finish_sync(pending)
        self._is_syncing = False
        if self._durability is Durability.COMMIT:
            durable = []
            while self._unsettled and self._unsettled[0].next_offset <= log.acknowledged_end:
                durable.append(self._unsettled.popleft())
            self._shell.settle(self, durable)
            if self._unsettled:
                self._sync_soon()

    # -- maintenance

    def _maintain(self, life: int) -> None:
        """Sync in the background, and compact piece by piece when that is due."""
        if self.life == life:
            self._shell.guard(self._maintain_now)

    def _maintain_now(self) -> None:
        log = self.log
        assert log is not None
        delay_ms = 2000 + int(self._rng.random() * 3000)
        try:
            if self._compaction is None:
                if log.is_compaction_due(self._shell.now_ms):
                    self._events.append((self._loop.now_ms, "compact", f"partition {self.number}"))
                    self._compaction = log.compaction_steps(self._shell.now_ms)
                elif self._durability is Durability.OS:
                    self._sync_soon()
            if self._compaction is not None:
                if next(self._compaction, self) is self:
                    self._compaction = None
                else:
                    delay_ms = 1 + int(self._rng.random() * 40)
        except StorageFailed as error:
            self._complain(error)
            self._compaction = None
            if log.writes_stopped is not None:
                self._shell.give_up_later(self)
        self._loop.call_later(delay_ms, self._maintain, self.life)

    def _complain(self, error: StorageFailed) -> None:
        self._events.append((self._loop.now_ms, "disk", str(error)))
