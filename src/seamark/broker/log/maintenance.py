"""What happens in the background: retention, compaction, forgetting producers, bringing leaders home.

Each runs at its own interval on the broker's clock. Compaction takes turns with the work of clients, one log at a time,
so that they wait for a step and never for a log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from seamark.broker.clock import BrokerClock, Timer, Timers
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.log.partition import Partition
from seamark.broker.log.storage import LogStorage
from seamark.broker.sharing.reading_thread import ReadingThread, beside
from seamark.broker.sharing.turns import Steps, Turns
from seamark.counts import counted
from seamark.errors import SeamarkError
from seamark.readable_log import readable_logger
from seamark.storage.errors import StorageFailed

_log = readable_logger("seamark.broker")

_PRODUCERS_SECONDS = 600.0


class KeptCluster(Protocol):
    """What is kept up: the partitions and who leads them."""

    def partitions(self) -> Iterable[Partition]: ...

    def rebalance_leaders(self) -> None: ...


class KeptBroker(Protocol):
    """What maintenance uses of the broker."""

    @property
    def cluster(self) -> KeptCluster: ...

    @property
    def storage(self) -> LogStorage: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def clock(self) -> BrokerClock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def reading_thread(self) -> ReadingThread: ...

    def note_failure(self, place: str, error: SeamarkError) -> None: ...

    def note_storage_failure(self, partition: Partition, error: SeamarkError) -> None: ...


class Maintenance:
    """Owned by the event loop's thread."""

    def __init__(self, broker: KeptBroker) -> None:
        self._broker = broker
        self._cluster = broker.cluster
        self._timers: dict[str, Timer] = {}
        self._to_compact: deque[Partition] = deque()
        self._steps: Steps | None = None
        self._is_running = False

    def start(self) -> None:
        self._is_running = True
        settings = self._broker.settings
        self._repeat("retention", lambda: settings["log.retention.check.interval.ms"] / 1000, self.retain)
        self._repeat("compaction", lambda: settings["log.cleaner.backoff.ms"] / 1000, self.compact)
        self._repeat("producers", lambda: _PRODUCERS_SECONDS, self.expire_producers)
        if settings["auto.leader.rebalance.enable"]:
            home = "leader.imbalance.check.interval.seconds"
            self._repeat("leaders", lambda: settings[home], self._bring_leaders_home)

    def stop(self) -> None:
        self._is_running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._to_compact.clear()
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    def _repeat(self, name: str, interval: Callable[[], float], action: Callable[[], None]) -> None:
        def act() -> None:
            try:
                action()
            finally:
                if self._is_running:
                    self._timers[name] = self._broker.timers.call_after(interval(), act)

        self._timers[name] = self._broker.timers.call_after(interval(), act)

    def retain(self) -> None:
        """Let go of what the topics' retention no longer keeps."""
        now_ms = self._broker.clock.now_ms()
        for partition in list(self._cluster.partitions()):
            if not partition.is_open or partition.log.writes_stopped:
                continue
            try:
                count = partition.log.retain(now_ms)
            except SeamarkError as error:
                self._broker.note_storage_failure(partition, error)
                continue
            if count:
                partition.epochs.forget_before(partition.log_start)
                partition.changed()
                segments = counted(count, "segment")
                _log.info(
                    "%s: %s deleted by retention, the log starts at %d", partition.name, segments, partition.log_start
                )

    def _bring_leaders_home(self) -> None:
        try:
            self._cluster.rebalance_leaders()
        except StorageFailed as error:
            self._broker.note_failure("partitions could not be moved back to their preferred leaders", error)

    def expire_producers(self) -> None:
        before_ms = self._broker.clock.now_ms() - self._broker.settings["producer.id.expiration.ms"]
        for partition in self._cluster.partitions():
            partition.producers.expire(before_ms)

    # -- compaction

    def compact(self) -> None:
        """Begin to compact every log that is due, unless some still wait for their turn."""
        if not self._broker.settings["log.cleaner.enable"] or self._steps is not None:
            return
        now_ms = self._broker.clock.now_ms()
        for partition in self._cluster.partitions():
            if not partition.topic.config.is_compacted or not partition.is_open or partition.log.writes_stopped:
                continue
            if self._broker.storage.is_in_memory:
                self._broker.storage.sync_now(partition)
            if partition.log.is_compaction_due(now_ms):
                self._to_compact.append(partition)
        self._steps = self._compact_waiting()
        self._broker.turns.add(self._broker.turns.own, self._steps)

    def _compact_waiting(self) -> Steps:
        while self._to_compact:
            partition = self._to_compact.popleft()
            try:
                if not partition.is_deleted:
                    steps = partition.log.compaction_steps(self._broker.clock.now_ms())
                    yield from beside(self._broker.reading_thread, steps)
            except SeamarkError as error:
                self._broker.note_failure("a compaction failed", error)
            yield None
        self._steps = None
