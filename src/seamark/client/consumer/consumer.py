"""The blocking consumer.

    with Consumer(bootstrap_servers="localhost:9092", group_id="billing", value=str) as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            handle(record)

One thread at a time may use it (I16); ``wakeup`` and ``metrics`` are for any. Heartbeats and fetching run on the
process's I/O thread, so a slow handler costs membership only past ``max.poll.interval.ms``. Rebalance listeners and
commit callbacks run inside the calls of the thread that uses the consumer.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from seamark.client.arguments import one_of, read_partitions
from seamark.client.callback_kinds import refuse_coroutine
from seamark.client.consumer.commit_callbacks import CommitCallback
from seamark.client.consumer.handle import (
    CLOSE_TIMEOUT_S,
    ITERATION_WAIT_S,
    ConsumerFacade,
    K,
    OffsetAndTime,
    Reads,
    Topics,
    V,
    is_empty,
    offsets_and_times,
    plain_offsets,
    read_max,
    read_offset,
    read_timestamps,
)
from seamark.client.consumer.steps import Call, OnIo
from seamark.client.core.assignment_state import Position
from seamark.client.core.listener import Listener, ListenerFunction
from seamark.client.core.positions.reset import EARLIEST, LATEST
from seamark.client.records import K_co, Offset, Record, V_co
from seamark.client.timing import Deadline
from seamark.errors import UsageError
from seamark.topic_partition import TopicPartition

R = TypeVar("R")
_MAX_BYTES = 64 << 20


class Consumer(ConsumerFacade, Generic[K_co, V_co]):
    """Configured by Kafka's own keys, as a mapping or as keywords with underscores for dots.

    ``Consumer("orders", bootstrap_servers=…, group_id=…)`` subscribes to topics, which may also stand behind a mapping.
    ``key`` and ``value`` say how records are deserialized, and with it their type: ``value=str`` makes a consumer of
    ``Record[bytes | None, str | None]``. ``key_deserializer`` and ``value_deserializer`` are other names for them.
    """

    # The defaults tell checkers what K and V are where nothing is said.
    @overload
    def __init__(
        self: Consumer[K | None, V | None],
        config: Mapping[str, Any] | Topics | None = None,
        /,
        *topics: Topics,
        key: Reads[K] | None = bytes,  # type: ignore[assignment]
        value: Reads[V] | None = bytes,  # type: ignore[assignment]
        key_deserializer: None = None,
        value_deserializer: None = None,
        **keywords: Any,
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[K | None, V | None],
        config: Mapping[str, Any] | Topics | None = None,
        /,
        *topics: Topics,
        key: None = None,
        value: None = None,
        key_deserializer: Reads[K] | None = bytes,  # type: ignore[assignment]
        value_deserializer: Reads[V] | None = bytes,  # type: ignore[assignment]
        **keywords: Any,
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[K | None, Any],
        config: Mapping[str, Any] | Topics | None = None,
        /,
        *topics: Topics,
        key: Reads[K] | None = bytes,  # type: ignore[assignment]
        value: str,
        key_deserializer: None = None,
        value_deserializer: None = None,
        **keywords: Any,
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[Any, V | None],
        config: Mapping[str, Any] | Topics | None = None,
        /,
        *topics: Topics,
        key: str,
        value: Reads[V] | None = bytes,  # type: ignore[assignment]
        key_deserializer: None = None,
        value_deserializer: None = None,
        **keywords: Any,
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[Any, Any],
        config: Mapping[str, Any] | Topics | None = None,
        /,
        *topics: Topics,
        key: str,
        value: str,
        key_deserializer: str | None = None,
        value_deserializer: str | None = None,
        **keywords: Any,
    ) -> None: ...

    def __init__(
        self,
        config: Mapping[str, Any] | Topics | None = None,
        /,
        *topics: Topics,
        key: Any = None,
        value: Any = None,
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        **keywords: Any,
    ) -> None:
        super().__init__(
            config,
            topics,
            keywords,
            key=one_of("key", key, "key_deserializer", key_deserializer),
            value=one_of("value", value, "value_deserializer", value_deserializer),
        )

    # -- what to read

    def subscribe(
        self,
        topics: Topics,
        *,
        on_assigned: ListenerFunction | None = None,
        on_revoked: ListenerFunction | None = None,
        on_lost: ListenerFunction | None = None,
    ) -> None:
        """Join the group for these topics: a list of names, a name, or a pattern that must match whole names.

        The listeners are given lists of partitions, inside poll; without ``on_lost``, ``on_revoked`` hears of lost
        partitions too. No topics at all unsubscribe.
        """
        listener = Listener.checked(on_assigned, on_revoked, on_lost)
        if is_empty(topics):
            self.unsubscribe()
        else:
            self._run(self._calls.subscribe(topics, listener))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions without taking part in a group's assignment."""
        self._run(self._calls.assign(partitions))

    def unsubscribe(self) -> None:
        """Read nothing: revokes and leaves the group, without a commit."""
        self._run(self._calls.unsubscribe())

    # -- reading

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[Record[K_co, V_co]]:
        """Records that are there, or arrive within ``timeout`` seconds; may be empty.

        ``max_records`` is max.poll.records (500) unless given.
        """
        most = self.config.max_poll_records if max_records is None else read_max("max_records", max_records)
        metrics = self._loop.core.metrics
        with self._guard:
            metrics.poll_started(self._now_ms())
            try:
                records = self._calls.take_now(most) or self._run(self._calls.poll(self._poll_deadline(timeout), most))
            finally:
                metrics.poll_ended(self._now_ms())
        return records if isinstance(records, list) else list(records)

    def poll_arrow(self, timeout: float = 1.0, max_bytes: int = _MAX_BYTES) -> Any:
        """As ``poll``, as a pyarrow.RecordBatch of at most about so many bytes; None if there is nothing."""
        most = read_max("max_bytes", max_bytes)
        metrics = self._loop.core.metrics
        with self._guard:
            metrics.poll_started(self._now_ms())
            try:
                return self._run(self._calls.poll_columns(self._poll_deadline(timeout), most))
            finally:
                metrics.poll_ended(self._now_ms())

    def _poll_deadline(self, timeout: float) -> Deadline:
        return self._within(timeout)

    def fetch_columns(self, partition: TopicPartition, start: int, end: int, **options: Any) -> Iterator[Any]:
        """The records from ``start`` up to but not including ``end`` as pyarrow.RecordBatches, each record once.

        The position, the assignment and the group have no part in it. RangeGone if the partition does not hold
        ``start`` (any more); what is not written yet is waited for, OperationTimedOut after default.api.timeout.ms
        without anything new. Options as for ``ColumnReader.fetch_columns``: columns, timestamp_unit, fetch_bytes.
        """
        with self._guard:
            return self._columns(partition, start, end, options)

    def __iter__(self) -> Iterator[Record[K_co, V_co]]:
        """Records for ever, one at a time; ends when the consumer is closed.

        A record counts as consumed when the next one is asked for, or by ``commit``: a loop that fails, or is left, has
        not consumed the record at hand. Another loop, or a poll, goes on with the record behind it.
        """
        iteration = self._calls.iteration
        while True:
            for record in iteration.handing:  # noqa: UP028 - other iterators and calls move it too
                yield record
            if self.is_closed:
                return
            self._show_more()

    def _show_more(self) -> None:
        most = self.config.max_poll_records
        metrics = self._loop.core.metrics
        with self._guard:
            metrics.poll_started(self._now_ms())
            try:
                if not self._calls.show_now(most):
                    self._run(self._calls.show(self._within(ITERATION_WAIT_S), most))
            finally:
                metrics.poll_ended(self._now_ms())

    # -- committing

    def commit(
        self, offsets: Mapping[TopicPartition, Offset | int] | None = None, timeout: float | None = None
    ) -> None:
        """Commit and wait for it: these offsets, or the positions of everything polled.

        An offset is the next one to process: the last processed plus one.
        """
        self._run(self._calls.commit(offsets, self._deadline(timeout)))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, Offset | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit without waiting, and without retries; ``callback(offsets, error)`` runs in a later call."""
        refuse_coroutine("the commit callback", callback, "only AsyncConsumer can await it")
        self._run(self._calls.commit_async(offsets, callback))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, Offset | None]:
        """What the group has committed; None where there is nothing."""
        return self._run(self._calls.committed(partitions, self._deadline(timeout)))

    # -- positions

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record that poll gives for an assigned partition."""
        return self._run(self._calls.position(partition, self._deadline(timeout)))

    def seek(self, partition: TopicPartition, offset: int | Offset) -> None:
        """Go on reading at this offset; nothing is committed by it."""
        if isinstance(offset, Offset):
            position = Position(offset.offset, offset.leader_epoch)
        else:
            position = Position(read_offset(offset))
        self._run(self._calls.seek(partition, position))

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on reading at the start of these partitions, or of all assigned ones; looked up when needed."""
        self._run(self._calls.seek_to_time(partitions, EARLIEST))

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        self._run(self._calls.seek_to_time(partitions, LATEST))

    def seek_to_time(self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on reading at the first record at or after this time, or at the end if there is none."""
        self._run(self._calls.seek_to_time(partitions, read_offset(timestamp_ms)))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(read_partitions(partitions), EARLIEST)
        return plain_offsets(self._run(self._calls.offsets_by_time(wanted, self._deadline(timeout))))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The next offsets to be written; with read_committed, the first of an open transaction."""
        wanted = dict.fromkeys(read_partitions(partitions), LATEST)
        return plain_offsets(self._run(self._calls.offsets_by_time(wanted, self._deadline(timeout))))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTime | None]:
        wanted = read_timestamps(times)
        return offsets_and_times(self._run(self._calls.offsets_by_time(wanted, self._deadline(timeout))))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop handing these out; the membership is kept by polling on."""
        self._run(self._calls.pause(partitions, is_paused=True))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._run(self._calls.pause(partitions, is_paused=False))

    def partitions_for(self, topic: str, timeout: float | None = None) -> tuple[TopicPartition, ...]:
        """The partitions of a topic; none if it does not exist."""
        return self._run(self._calls.partitions_of(topic, self._deadline(timeout)))

    # -- closing

    def close(self, timeout: float = CLOSE_TIMEOUT_S, *, leave: bool | None = None, commit: bool = True) -> None:
        """Commit (if auto-commit is on), revoke, leave the group, and end all connections.

        While an exception is being handled, the commit leaves out what the last poll gave: it may not be processed.
        Only this thread's exceptions are seen: where another one closes, ``commit=False`` says that nothing is to be
        committed here. Static members stay in the group until their session ends; ``leave=True`` makes them leave,
        ``leave=False`` makes any member stay. In a forked child it does nothing: the parent's consumer goes on.
        """
        self._close(timeout, leave, is_orderly=sys.exception() is None, commit=commit)

    def _close(self, timeout: float, leave: bool | None, *, is_orderly: bool, commit: bool = True) -> None:
        if not self._io.owner_is_here:
            return
        self._run(self._calls.close(self._within(timeout), leave, is_orderly=is_orderly, commit=commit))
        self._abandoned.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(CLOSE_TIMEOUT_S, None, is_orderly=error is None)

    def _run(self, call: Call[R]) -> R:
        """Drive a call: block for the I/O thread, run user code here."""
        with self._guard:
            try:
                step = next(call)
                while True:
                    try:
                        outcome = self._io.run(step.work) if isinstance(step, OnIo) else step.function()
                        if isinstance(outcome, Awaitable):
                            _refuse(outcome)
                    except BaseException as error:  # noqa: BLE001 - the call decides what it means
                        step = call.throw(error)
                    else:
                        step = call.send(outcome)
            except StopIteration as end:
                result: R = end.value
                return result


def _refuse(answer: Awaitable[object]) -> None:
    if isinstance(answer, Coroutine):
        answer.close()
    raise UsageError("a callback of a Consumer returned an awaitable, which it cannot await: use AsyncConsumer")
