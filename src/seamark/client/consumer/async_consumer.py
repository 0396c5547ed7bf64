"""The awaitable consumer: as ``Consumer``, with everything that waits being awaited.

    async with AsyncConsumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer:
            await handle(record)

One task at a time may use it. Listeners and commit callbacks may be coroutine functions; they run in that task. The
membership does not live on the caller's event loop: a handler that blocks it costs nothing below
``max.poll.interval.ms``.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from seamark.client.arguments import one_of, read_partitions
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
from seamark.topic_partition import TopicPartition

R = TypeVar("R")
_MAX_BYTES = 64 << 20


def current_task_id() -> int:
    """Who uses an awaitable consumer, for its guard."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return id(task)


class AsyncConsumer(ConsumerFacade, Generic[K_co, V_co]):
    """Configured as Consumer is; see there for what each call means."""

    # The defaults tell checkers what K and V are where nothing is said.
    @overload
    def __init__(
        self: AsyncConsumer[K | None, V | None],
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
        self: AsyncConsumer[K | None, V | None],
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
        self: AsyncConsumer[K | None, Any],
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
        self: AsyncConsumer[Any, V | None],
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
        self: AsyncConsumer[Any, Any],
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
            who=current_task_id,
        )

    async def subscribe(
        self,
        topics: Topics,
        *,
        on_assigned: ListenerFunction | None = None,
        on_revoked: ListenerFunction | None = None,
        on_lost: ListenerFunction | None = None,
    ) -> None:
        listener = Listener.checked(on_assigned, on_revoked, on_lost, may_await=True)
        if is_empty(topics):
            await self.unsubscribe()
        else:
            await self._run(self._calls.subscribe(topics, listener))

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        await self._run(self._calls.assign(partitions))

    async def unsubscribe(self) -> None:
        await self._run(self._calls.unsubscribe())

    async def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[Record[K_co, V_co]]:
        most = self.config.max_poll_records if max_records is None else read_max("max_records", max_records)
        metrics = self._loop.core.metrics
        with self._guard:
            metrics.poll_started(self._now_ms())
            try:
                records = self._calls.take_now(most) or await self._run(self._calls.poll(self._within(timeout), most))
            finally:
                metrics.poll_ended(self._now_ms())
        return records if isinstance(records, list) else list(records)

    async def poll_arrow(self, timeout: float = 1.0, max_bytes: int = _MAX_BYTES) -> Any:
        most = read_max("max_bytes", max_bytes)
        metrics = self._loop.core.metrics
        with self._guard:
            metrics.poll_started(self._now_ms())
            try:
                return await self._run(self._calls.poll_columns(self._within(timeout), most))
            finally:
                metrics.poll_ended(self._now_ms())

    async def fetch_columns(
        self, partition: TopicPartition, start: int, end: int, **options: Any
    ) -> AsyncIterator[Any]:
        with self._guard:
            batches = self._columns(partition, start, end, options)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            yield batch

    async def __aiter__(self) -> AsyncIterator[Record[K_co, V_co]]:
        iteration = self._calls.iteration
        while True:
            for record in iteration.handing:
                yield record
            if self.is_closed:
                return
            await self._show_more()

    async def _show_more(self) -> None:
        most = self.config.max_poll_records
        metrics = self._loop.core.metrics
        with self._guard:
            metrics.poll_started(self._now_ms())
            try:
                if not self._calls.show_now(most):
                    await self._run(self._calls.show(self._within(ITERATION_WAIT_S), most))
            finally:
                metrics.poll_ended(self._now_ms())

    async def commit(
        self,
        offsets: Mapping[TopicPartition, Offset | int] | None = None,
        timeout: float | None = None,
    ) -> None:
        await self._run(self._calls.commit(offsets, self._deadline(timeout)))

    async def commit_async(
        self,
        offsets: Mapping[TopicPartition, Offset | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        await self._run(self._calls.commit_async(offsets, callback))

    async def committed(
        self,
        partitions: Iterable[TopicPartition],
        timeout: float | None = None,
    ) -> dict[TopicPartition, Offset | None]:
        return await self._run(self._calls.committed(partitions, self._deadline(timeout)))

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        return await self._run(self._calls.position(partition, self._deadline(timeout)))

    async def seek(self, partition: TopicPartition, offset: int | Offset) -> None:
        if isinstance(offset, Offset):
            position = Position(offset.offset, offset.leader_epoch)
        else:
            position = Position(read_offset(offset))
        await self._run(self._calls.seek(partition, position))

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        await self._run(self._calls.seek_to_time(partitions, EARLIEST))

    async def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        await self._run(self._calls.seek_to_time(partitions, LATEST))

    async def seek_to_time(self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        await self._run(self._calls.seek_to_time(partitions, read_offset(timestamp_ms)))

    async def beginning_offsets(
        self,
        partitions: Iterable[TopicPartition],
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(read_partitions(partitions), EARLIEST)
        return plain_offsets(await self._run(self._calls.offsets_by_time(wanted, self._deadline(timeout))))

    async def end_offsets(
        self,
        partitions: Iterable[TopicPartition],
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(read_partitions(partitions), LATEST)
        return plain_offsets(await self._run(self._calls.offsets_by_time(wanted, self._deadline(timeout))))

    async def offsets_for_times(
        self,
        times: Mapping[TopicPartition, int],
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTime | None]:
        wanted = read_timestamps(times)
        return offsets_and_times(await self._run(self._calls.offsets_by_time(wanted, self._deadline(timeout))))

    async def pause(self, partitions: Iterable[TopicPartition]) -> None:
        await self._run(self._calls.pause(partitions, is_paused=True))

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        await self._run(self._calls.pause(partitions, is_paused=False))

    async def partitions_for(self, topic: str, timeout: float | None = None) -> tuple[TopicPartition, ...]:
        return await self._run(self._calls.partitions_of(topic, self._deadline(timeout)))

    def close(
        self, timeout: float = CLOSE_TIMEOUT_S, *, leave: bool | None = None, commit: bool = True
    ) -> Coroutine[Any, Any, None]:
        # Not a coroutine function: awaited in a task of its own, it would not see the exception that is being handled.
        return self._close(timeout, leave, is_orderly=sys.exception() is None, commit=commit)

    async def _close(self, timeout: float, leave: bool | None, *, is_orderly: bool, commit: bool = True) -> None:
        if not self._io.owner_is_here:
            return
        await self._run(self._calls.close(self._within(timeout), leave, is_orderly=is_orderly, commit=commit))
        self._abandoned.detach()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(CLOSE_TIMEOUT_S, None, is_orderly=error is None)

    async def _run(self, call: Call[R]) -> R:
        """Drive a call: await the I/O thread, run and await user code here."""
        with self._guard:
            try:
                step = next(call)
                while True:
                    try:
                        if isinstance(step, OnIo):
                            outcome = await self._io.run_async(step.work)
                        else:
                            outcome = step.function()
                            if inspect.isawaitable(outcome):
                                outcome = await outcome
                    except BaseException as error:  # noqa: BLE001 - the call decides what it means
                        step = call.throw(error)
                    else:
                        step = call.send(outcome)
            except StopIteration as end:
                result: R = end.value
                return result
