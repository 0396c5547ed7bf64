"""A partition: its log, who leads it in which epoch, what its producers wrote, and who waits for more.

The log is opened when it is first needed: a topic of fifty empty partitions costs nothing. Clients see records up to
the ``high_watermark``, which is the log's end, or with durability ``commit`` the end of what is synced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

from seamark.broker.config.topic_configs import TopicConfig
from seamark.broker.log.history import LeaderEpochs, ProducerStates
from seamark.storage.errors import DiskFull, StorageFailed
from seamark.storage.log import AppendResult, Log
from seamark.wire.records.record_batch import Buffer

NO_LEADER = -1


class Waiter(Protocol):
    """Who is told that a partition has more to read, or that it is not what it was."""

    def records_arrived(self, byte_count: int) -> None: ...

    def partition_changed(self) -> None: ...


class TopicOfPartition(Protocol):
    """A partition's topic, as its log sees it."""

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> bytes: ...

    @property
    def config(self) -> TopicConfig: ...

    def changed(self) -> None: ...


class LogStore(Protocol):
    """Where the logs of partitions live; ``LogStorage`` is one."""

    @property
    def is_full(self) -> bool: ...

    @property
    def acknowledges_at_once(self) -> bool: ...

    def open_log(self, partition: Partition) -> Log: ...

    def appended(self, partition: Partition) -> None: ...

    def wait_for_sync(
        self, partition: Partition, end_offset: int, callback: Callable[[StorageFailed | None], None]
    ) -> None: ...

    def forget(self, partition: Partition, reason: str) -> None: ...

    def delete_log(self, partition: Partition, log: Log) -> None: ...


class Partition:
    """Owned by the event loop's thread; changes of leadership come from ``Cluster`` alone."""

    __slots__ = (
        "_log",
        "_storage",
        "_unannounced_bytes",
        "epochs",
        "index",
        "is_deleted",
        "leader",
        "leader_epoch",
        "producers",
        "replicas",
        "running_replicas",
        "topic",
        "waiters",
    )

    def __init__(self, topic: TopicOfPartition, index: int, replicas: list[int], storage: LogStore) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        # Kafka's in-sync replicas: those of ``replicas`` whose node runs.
        self.running_replicas: list[int] = []
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.is_deleted = False
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()
        self.waiters: dict[Waiter, None] = {}
        self._storage = storage
        self._log: Log | None = None
        # Appended but not yet below the high watermark.
        self._unannounced_bytes = 0

    def __repr__(self) -> str:
        return f"<{self.name} leader={self.leader} epoch={self.leader_epoch}>"

    @property
    def name(self) -> str:
        return f"{self.topic.name}-{self.index}"

    @property
    def is_open(self) -> bool:
        """Whether there is a log yet; without one the partition is empty."""
        return self._log is not None

    @property
    def log(self) -> Log:
        """The log, made when there is none."""
        if self._log is None:
            self._log = self._storage.open_log(self)
        return self._log

    @property
    def log_start(self) -> int:
        return 0 if self._log is None else self._log.log_start

    @property
    def log_end(self) -> int:
        return 0 if self._log is None else self._log.log_end

    @property
    def high_watermark(self) -> int:
        """Clients may read everything below."""
        return 0 if self._log is None else self._log.acknowledged_end

    def append(self, batches: Buffer, now_ms: int) -> AppendResult:
        """Write batches under the present leader epoch and wake who waits for them; a writable view is changed itself.

        Their checksums have been compared with their bytes.
        Raises what ``Log.append`` raises. The records count once ``when_acknowledged`` says so.
        """
        storage = self._storage
        if storage.is_full:
            raise DiskFull(self.name, None, "the disk is full")
        log = self._log or self.log
        is_ours = isinstance(batches, memoryview) and not batches.readonly
        result = log.append(batches, now_ms, self.leader_epoch, in_place=is_ours, is_crc_checked=True)
        storage.appended(self)
        if storage.acknowledges_at_once:
            self._announce(len(batches))
        else:
            self._unannounced_bytes += len(batches)
        return result

    def append_prebuilt(self, batch: bytes, next_offset: int, timestamp_ms: int, now_ms: int) -> None:
        """As ``append``, for one batch that was just made here: see ``Log.append_prebuilt``."""
        storage = self._storage
        if storage.is_full:
            raise DiskFull(self.name, None, "the disk is full")
        (self._log or self.log).append_prebuilt(batch, next_offset, timestamp_ms, now_ms)
        storage.appended(self)
        if not storage.acknowledges_at_once:
            self._unannounced_bytes += len(batch)
        elif self.waiters:
            self._announce(len(batch))

    def when_acknowledged(self, end_offset: int, callback: Callable[[StorageFailed | None], None]) -> None:
        """Call back, at once or later, when everything below ``end_offset`` is as durable as promised, or cannot be."""
        if self.log.acknowledged_end >= end_offset:
            callback(None)
        else:
            self._storage.wait_for_sync(self, end_offset, callback)

    def synced(self) -> None:
        """The log was synced: what was appended before may be readable now."""
        if self._unannounced_bytes and self.high_watermark == self.log_end:
            byte_count, self._unannounced_bytes = self._unannounced_bytes, 0
            self._announce(byte_count)

    def _announce(self, byte_count: int) -> None:
        if self.waiters:
            for waiter in list(self.waiters):
                waiter.records_arrived(byte_count)

    def changed(self) -> None:
        """Leader, start or existence changed: who waits must look again."""
        for waiter in list(self.waiters):
            waiter.partition_changed()

    def reopen(self) -> None:
        """Open the log again after its writes were stopped; raises ``StorageFailed`` while the disk does not answer."""
        stopped, epochs, producers = self._log, self.epochs, self.producers
        self.epochs, self.producers = LeaderEpochs(), ProducerStates()
        try:
            self._log = self._storage.open_log(self)
        except BaseException:
            # The one that was stopped can still be read, and knows where it ends.
            self.epochs, self.producers = epochs, producers
            raise
        if stopped is not None:
            with contextlib.suppress(StorageFailed):
                stopped.close()
        self._unannounced_bytes = 0
        self.epochs.begin(self.leader_epoch, self._log.log_end)
        self.changed()
        # What they wait for may have been cut, and its offsets given to other records.
        self._storage.forget(self, "the log was opened again")

    def close(self) -> None:
        """Sync and let the log go."""
        if self._log is not None:
            self._log.close()

    def retire(self) -> None:
        """The topic was deleted: nobody is served any more, while the log is still to be removed."""
        self.is_deleted = True
        self._storage.forget(self, "the topic was deleted")
        self.changed()

    def delete_log(self) -> None:
        if self._log is not None:
            self._storage.delete_log(self, self._log)
