"""The port on our own client: a consumer of raw bytes, and a ``Producer`` once a dead letter is to be written.

Positions come from the consumer, so they lie behind transaction markers and compacted records. ``wake`` ends a waiting
poll, never a commit. The producer may wait for the metadata of its topic, so it is fed by a thread of its own: polling
never waits for a dead letter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from itertools import groupby
from typing import Any

from seamark.client import Offset, OwnedConsumer, Producer, Record
from seamark.client.config.config import ClientConfig
from seamark.client.errors import RecordsTooLarge, WakeUp
from seamark.errors import SeamarkError
from seamark.parallel.core.ports import (
    NO_EPOCH,
    CommitDone,
    Committed,
    Headers,
    MetadataTooLong,
    Polled,
    PolledColumns,
    ProduceDone,
    Rebalance,
    SetAside,
    ToCommit,
)
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode

_log = readable_logger("seamark.parallel")

_TOO_LONG = (ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
# Without anything at hand, the consumer's own machinery is asked no more often than this: it lives on another thread.
_TURN_S = 0.01
# Positions also move without records, behind transactions that were aborted; that is looked for this often.
_POSITIONS_S = 0.1
# A partition that cannot be read on is told of in the log this often.
_SAY_AGAIN_S = 60.0
# A dead-letter topic that is not there is an error soon, not after the minute that a producer would wait. A record that
# came compressed may be larger than a producer takes by default; compressed again, the broker takes it as it took it
# before, and one value of zeros does not end the consumer.
_PRODUCER = {
    "max_block_ms": 10_000,
    "max_request_size": 256 << 20,
    "buffer_memory": 256 << 20,
    "compression_type": "zstd",
}

# The position of a partition that has none yet.
_UNKNOWN = (-1, NO_EPOCH)

Outcomes = dict[TopicPartition, BaseException | None]


class SeamarkPort:
    def __init__(self, config: Mapping[str, Any], fetch_bytes: int) -> None:
        self._config = dict(config)
        self._consumer = OwnedConsumer({"prefetch.max.bytes": fetch_bytes, **self._config, "enable.auto.commit": False})
        self._clock = time.monotonic
        self._next_turn = 0.0
        self._next_positions = 0.0
        # Positions that the owner has heard of.
        self._told: dict[TopicPartition, int] = {}
        # Partitions that stand before a batch that would cost too much, and when that is said again.
        self._unreadable: dict[TopicPartition, SetAside] = {}
        self._next_saying = 0.0
        self._producer: Producer | None = None
        self._writer: ThreadPoolExecutor | None = None

    def subscribe(self, topics: Sequence[str], rebalance: Rebalance) -> None:
        consumer = self._consumer

        def assigned(partitions: list[TopicPartition]) -> None:
            if not partitions:
                return
            offsets = consumer.committed(partitions)
            for partition in partitions:
                self._told.pop(partition, None)
            self._forget_unreadable(partitions)
            rebalance.on_assigned({partition: _committed(offsets.get(partition)) for partition in partitions})

        def revoked(partitions: list[TopicPartition]) -> None:
            self._forget_unreadable(partitions)
            if partitions:
                rebalance.on_revoked(partitions)

        def lost(partitions: list[TopicPartition]) -> None:
            self._forget_unreadable(partitions)
            if partitions:
                rebalance.on_lost(partitions)

        consumer.subscribe(list(topics), on_assigned=assigned, on_revoked=revoked, on_lost=lost)

    def _forget_unreadable(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._unreadable.pop(partition, None)

    # -- reading

    def poll(self, timeout: float, max_records: int) -> Sequence[Polled]:
        records: Sequence[Record] | None = self._guarded(lambda: self._take(timeout, max_records))
        polled = self._by_partition(records or ())
        self._add_moved(polled, lambda partition, position: Polled(partition, (), *position))
        return polled

    def poll_columns(self, timeout: float, max_bytes: int) -> Sequence[PolledColumns]:
        batch = self._guarded(lambda: self._take_columns(timeout, max_bytes))
        polled: list[PolledColumns] = []
        if batch is not None and batch.num_rows:
            partition = TopicPartition(batch.column(0)[0].as_py(), batch.column(1)[0].as_py())
            position, leader_epoch = self._consumer.position_now(partition) or _UNKNOWN
            self._told[partition] = position
            offsets = batch.column("offset").to_numpy().tolist()
            polled.append(PolledColumns(partition, batch, offsets, position, leader_epoch))
        self._add_moved(polled, lambda partition, position: PolledColumns(partition, None, [], *position))
        return polled

    def _take(self, timeout: float, max_records: int) -> Sequence[Record]:
        records = self._consumer.take_now(max_records)
        if records or not self._is_turn(timeout):
            return records
        return self._consumer.poll(timeout, max_records)

    def _take_columns(self, timeout: float, max_bytes: int) -> Any:
        if self._consumer.has_records or self._is_turn(timeout):
            return self._consumer.poll_arrow(timeout, max_bytes)
        return None

    def _guarded(self, take: Callable[[], Any]) -> Any:
        self._consumer.tell_outcomes()
        try:
            taken = take()
        except WakeUp:
            taken = None
        except RecordsTooLarge as error:
            self._set_aside(error)
            taken = None
        self._consumer.tell_outcomes()
        self._say_what_is_unreadable()
        return taken

    def _set_aside(self, error: RecordsTooLarge) -> None:
        """Read the other partitions on: whoever wrote one batch that costs too much must not stop them all."""
        partition = error.partition
        self._unreadable[partition] = SetAside(partition, error.offset, error.reason, error.next_offset)
        self._consumer.pause([error.partition])
        self._next_saying = 0.0

    def _say_what_is_unreadable(self) -> None:
        if not self._unreadable or (now := self._clock()) < self._next_saying:
            return
        self._next_saying = now + _SAY_AGAIN_S
        for set_aside in self._unreadable.values():
            _log.error("%s", set_aside)

    def _is_turn(self, timeout: float) -> bool:
        """Whether the consumer's own machinery is asked, which lives on another thread."""
        now = self._clock()
        if timeout <= 0 and not self._consumer.needs_poll and now < self._next_turn:
            return False
        self._next_turn = now + _TURN_S
        return True

    def _by_partition(self, records: Sequence[Record]) -> list[Polled]:
        polled: list[Polled] = []
        if len({record.partition for record in records}) == len({record.topic for record in records}) == 1:
            # All of one partition, as nearly always: a fetch brings more of each than one poll takes.
            polled.append(Polled(TopicPartition(records[0].topic, records[0].partition), records))
        else:
            start = 0
            # Records come in runs of one partition.
            for place, run in groupby([(record.topic, record.partition) for record in records]):
                count = sum(1 for _ in run)
                polled.append(Polled(TopicPartition(*place), records[start : start + count]))
                start += count
        last = {run.partition: index for index, run in enumerate(polled)}
        for partition, index in last.items():
            position, _ = self._consumer.position_now(partition) or _UNKNOWN
            self._told[partition] = position
            polled[index] = polled[index]._replace(position=position)
        return polled

    def _add_moved(self, polled: list[Any], make: Callable[[TopicPartition, tuple[int, int]], Any]) -> None:
        now = self._clock()
        if now < self._next_positions:
            return
        self._next_positions = now + _POSITIONS_S
        for partition, position in self._consumer.positions_now().items():
            if position.offset > self._told.get(partition, -1):
                self._told[partition] = position.offset
                polled.append(make(partition, position))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        ours = self._consumer.assignment()
        self._consumer.pause([partition for partition in partitions if partition in ours])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        ours = self._consumer.assignment()
        wanted = [partition for partition in partitions if partition in ours and partition not in self._unreadable]
        self._consumer.resume(wanted)

    # -- committing

    def commit(
        self, offsets: Mapping[TopicPartition, ToCommit], done: CommitDone | None = None, timeout: float | None = None
    ) -> Mapping[TopicPartition, BaseException | None]:
        wanted = {
            partition: Offset(to_commit.offset, to_commit.metadata, to_commit.leader_epoch)
            for partition, to_commit in offsets.items()
        }
        if done is not None:
            self._consumer.commit_soon(wanted, lambda sent, error: done(outcomes_of(sent, error)))
            return {}
        try:
            self._consumer.commit_and_wait(wanted, timeout)
        except SeamarkError as error:
            outcomes = outcomes_of(wanted, error)
        else:
            outcomes = outcomes_of(wanted, None)
        # Of those before it.
        self._consumer.tell_outcomes()
        return outcomes

    # -- dead letters

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: ProduceDone) -> None:
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="seamark-dead-letters")
        try:
            self._writer.submit(self._write, topic, key, value, headers, done)
        except RuntimeError as error:
            # The interpreter has shut its executors: see ``at_exit``.
            done(error)

    def _write(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: ProduceDone) -> None:
        def ended(delivered: object, error: BaseException | None) -> None:  # noqa: ARG001 - the producer's signature
            done(error)

        try:
            if self._producer is None:
                shared = {field.name.replace("_", ".") for field in fields(ClientConfig)}
                config = {name: value for name, value in self._config.items() if name in shared}
                self._producer = Producer(config, **_PRODUCER)
            self._producer.send(topic, value, key=key, headers=headers, on_delivery=ended)
        except Exception as error:  # noqa: BLE001 - whatever keeps a dead letter from being written is told to its owner
            ended(None, error)

    # -- life

    def set_aside(self) -> list[SetAside]:
        return list(self._unreadable.values())

    def log_ends(self) -> dict[TopicPartition, int]:
        metrics = self._consumer.metrics()
        ends = {}
        for partition, position in self._consumer.positions_now().items():
            labels = f'{{topic="{partition.topic}",partition="{partition.partition}"}}'
            lag = metrics.get(f"seamark_consumer_records_lag{labels}")
            if lag is not None:
                ends[partition] = position.offset + int(lag)
        return ends

    def wake(self) -> None:
        self._consumer.wakeup()

    def close(self, timeout: float) -> None:
        try:
            self._consumer.close(timeout)
        finally:
            if self._writer is not None:
                self._writer.shutdown(wait=False, cancel_futures=True)
            if self._producer is not None:
                self._producer.close(timeout)


def _committed(offset: Offset | None) -> Committed:
    # confluent-kafka, if that had the group before, ends metadata with a null character.
    if offset is None:
        return Committed(-1)
    return Committed(offset.offset, (offset.metadata or "").rstrip("\0"), offset.leader_epoch)


def outcomes_of(offsets: Iterable[TopicPartition], error: BaseException | None) -> Outcomes:
    """What became of each partition of a commit that ended so; one of which nothing is known was refused."""
    codes = getattr(error, "partition_codes", None) or getattr(error and error.__cause__, "partition_codes", None)
    if error is None or codes is None:
        return dict.fromkeys(offsets, error)
    outcomes: Outcomes = {}
    for partition in offsets:
        code = codes.get(partition)
        if code is ErrorCode.NONE:
            outcomes[partition] = None
        elif code in _TOO_LONG:
            outcomes[partition] = MetadataTooLong(f"{partition}: {code.name}")
        else:
            outcomes[partition] = error
    return outcomes
