"""The port on our own client: a ``Consumer`` of raw bytes, and a ``Producer`` once a dead letter is to be written.

Positions come from the consumer, so they lie behind transaction markers and compacted records. ``wake`` ends a waiting
poll; a commit that it hits by chance is simply made again. The producer may wait for the metadata of its topic, so it
is fed by a thread of its own: polling never waits for a dead letter.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from itertools import groupby
from typing import Any

from seamark.client.config.config import ClientConfig
from seamark.client.consumer.consumer import Consumer
from seamark.client.core.assignment_state import Position
from seamark.client.errors import RecordsTooLarge, WakeUp
from seamark.client.producer.producer import Producer
from seamark.client.records import Offset, Record
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
_PRODUCER: dict[str, Any] = {
    "max_block_ms": 10_000,
    "max_request_size": 256 << 20,
    "buffer_memory": 256 << 20,
    "compression_type": "zstd",
}

Outcomes = dict[TopicPartition, BaseException | None]


class _Reader(Consumer):
    """A consumer whose owner also asks for what is at hand, without waiting for the I/O thread."""

    def take_here(self, most: int) -> Sequence[Record]:
        with self._guard:
            return self._calls.take_now(most)

    @property
    def has_something(self) -> bool:
        return self._loop.fetcher.has_something

    @property
    def wants_turn(self) -> bool:
        """Whether poll has more to do than to hand out records."""
        return self._loop.attention or self._loop.is_woken

    def offset_of(self, partition: TopicPartition) -> int:
        """The position, -1 if it is not known yet."""
        state = self._loop.core.assignment.get(partition)
        return -1 if state is None or state.position is None else state.position.offset

    def epoch_of(self, partition: TopicPartition) -> int:
        """The leader epoch of the record before the position."""
        state = self._loop.core.assignment.get(partition)
        return NO_EPOCH if state is None or state.position is None else state.position.leader_epoch

    def positions(self) -> dict[TopicPartition, Position]:
        return self._loop.core.assignment.positions()


class SeamarkPort:
    def __init__(self, config: Mapping[str, Any], fetch_bytes: int) -> None:
        self._config = dict(config)
        self._consumer = _Reader({"prefetch.max.bytes": fetch_bytes, **self._config, "enable.auto.commit": False})
        self._clock = time.monotonic
        self._next_turn = 0.0
        self._next_positions = 0.0
        # Positions that the owner has heard of.
        self._told: dict[TopicPartition, int] = {}
        # Partitions that stand before a batch that would cost too much, and when that is said again.
        self._unreadable: dict[TopicPartition, SetAside] = {}
        self._next_saying = 0.0
        # Commits that ended; told in poll, or in a commit that waits.
        self._finished: deque[Callable[[], object]] = deque()
        self._producer: Producer | None = None
        self._writer: ThreadPoolExecutor | None = None

    def subscribe(self, topics: Sequence[str], rebalance: Rebalance) -> None:
        consumer = self._consumer

        def assigned(partitions: list[TopicPartition]) -> None:
            if not partitions:
                return
            found = consumer.committed(partitions)
            for partition in partitions:
                self._told.pop(partition, None)
            self._forget_unreadable(partitions)
            rebalance.on_assigned({partition: _committed(found.get(partition)) for partition in partitions})

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
            position = self._told[partition] = self._consumer.offset_of(partition)
            offsets = batch.column("offset").to_numpy().tolist()
            polled.append(PolledColumns(partition, batch, offsets, position, self._consumer.epoch_of(partition)))
        self._add_moved(polled, lambda partition, position: PolledColumns(partition, None, [], *position))
        return polled

    def _take(self, timeout: float, max_records: int) -> Sequence[Record]:
        found = self._consumer.take_here(max_records)
        if found or not self._is_turn(timeout):
            return found
        return self._consumer.poll(timeout, max_records)

    def _take_columns(self, timeout: float, max_bytes: int) -> Any:
        if self._consumer.has_something or self._is_turn(timeout):
            return self._consumer.poll_arrow(timeout, max_bytes)
        return None

    def _guarded(self, take: Callable[[], Any]) -> Any:
        self._tell_finished()
        try:
            found = take()
        except WakeUp:
            found = None
        except RecordsTooLarge as error:
            self._set_aside(error)
            found = None
        self._tell_finished()
        self._say_what_is_unreadable()
        return found

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
        for each in self._unreadable.values():
            _log.error("%s", each)

    def _is_turn(self, timeout: float) -> bool:
        """Whether the consumer's own machinery is asked, which lives on another thread."""
        now = self._clock()
        if timeout <= 0 and not self._consumer.wants_turn and now < self._next_turn:
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
        last = {each.partition: index for index, each in enumerate(polled)}
        for partition, index in last.items():
            position = self._told[partition] = self._consumer.offset_of(partition)
            polled[index] = polled[index]._replace(position=position)
        return polled

    def _add_moved(self, polled: list[Any], make: Callable[[TopicPartition, Position], Any]) -> None:
        now = self._clock()
        if now < self._next_positions:
            return
        self._next_positions = now + _POSITIONS_S
        for partition, position in self._consumer.positions().items():
            if position.offset > self._told.get(partition, -1):
                self._told[partition] = position.offset
                polled.append(make(partition, position))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        ours = self._consumer.assignment()
        self._consumer.pause([partition for partition in partitions if partition in ours])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        ours = self._consumer.assignment()
        wanted = [each for each in partitions if each in ours and each not in self._unreadable]
        self._consumer.resume(wanted)

    # -- committing

    def commit(
        self, offsets: Mapping[TopicPartition, ToCommit], done: CommitDone | None = None, timeout: float | None = None
    ) -> Mapping[TopicPartition, BaseException | None]:
        wanted = {
            partition: Offset(each.offset, each.metadata, each.leader_epoch) for partition, each in offsets.items()
        }
        if done is None:
            outcomes = self._commit_and_wait(wanted, timeout)
            self._tell_finished()
            return outcomes
        try:
            self._consumer.commit_async(wanted, callback=partial(self._commit_ended, done))
        except SeamarkError as error:
            self._finished.append(partial(done, outcomes_of(wanted, error)))
        return {}

    def _commit_and_wait(self, wanted: Mapping[TopicPartition, Offset], timeout: float | None) -> Outcomes:
        deadline = None if timeout is None else self._clock() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - self._clock())
            try:
                self._consumer.commit(wanted, timeout=left)
            except WakeUp:
                # It may have been stored; saying the same again does no harm.
                continue
            except SeamarkError as error:
                return outcomes_of(wanted, error)
            return outcomes_of(wanted, None)

    def _commit_ended(
        self, done: CommitDone, offsets: Mapping[TopicPartition, Offset], error: BaseException | None
    ) -> None:
        self._finished.append(partial(done, outcomes_of(offsets, error)))

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
                shared = {each.name.replace("_", ".") for each in fields(ClientConfig)}
                config = {name: value for name, value in self._config.items() if name in shared}
                self._producer = Producer(config, **_PRODUCER)
            self._producer.send(topic, value, key=key, headers=headers, on_delivery=ended)
        except Exception as error:  # noqa: BLE001 - whatever keeps a dead letter from being written is told to its owner
            ended(None, error)

    def _tell_finished(self) -> None:
        finished = self._finished
        while finished:
            finished.popleft()()

    # -- life

    def set_aside(self) -> list[SetAside]:
        return list(self._unreadable.values())

    def log_ends(self) -> dict[TopicPartition, int]:
        metrics = self._consumer.metrics()
        ends = {}
        for partition, position in self._consumer.positions().items():
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


def _committed(found: Offset | None) -> Committed:
    # confluent-kafka, if that had the group before, ends metadata with a null character.
    if found is None:
        return Committed(-1)
    return Committed(found.offset, (found.metadata or "").rstrip("\0"), found.leader_epoch)


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
