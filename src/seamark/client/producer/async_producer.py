"""The awaitable producer: as ``Producer``, with everything that waits being awaited.

    async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("orders", b"...")      # accepted into the buffer
        await delivery                                        # acknowledged

One object may serve tasks of several event loops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from seamark.client.errors import DeliveryFailed, OperationTimedOut
from seamark.client.producer.delivery import BatchOutcome, Delivery, DeliveryCallback, DeliveryRun
from seamark.client.producer.handle import ProducerFacade, RoomNeeded, TopicNeeded, read_timestamp, run_of
from seamark.client.timing import Deadline
from seamark.topic_partition import TopicPartition


class AsyncProducer(ProducerFacade):
    """Configured as Producer is; see there for what each call means."""

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None] = (),
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Put a record into the buffer; what is returned can be awaited for its acknowledgement."""
        if (
            type(value) is bytes
            and key is None
            and partition is None
            and not headers
            and timestamp_ms is None
            and on_delivery is None
            and self._value is None
            and (quick := self._quick(topic, value)) is not None
        ):
            return quick
        record = self._outgoing(topic, value, key, partition, headers, timestamp_ms, on_delivery)
        answer = self._try(record)
        if isinstance(answer, Delivery):
            return answer
        deadline = Deadline(self.config.max_block_ms / 1000)
        while not isinstance(answer, Delivery):
            await self._wait_for(answer, deadline)
            answer = self._try(record)
        return answer

    async def send_many(
        self, topic: str, values: Iterable[Any], *, partition: int | None = None, timestamp_ms: int | None = None
    ) -> DeliveryRun:
        some = self._check_many(topic, values)
        stamp = read_timestamp(timestamp_ms)
        runs: list[tuple[BatchOutcome, int, int]] = []
        start = 0
        while start < len(some):
            answer = self._try_many(topic, some, start, partition, stamp)
            deadline: Deadline | None = None
            while isinstance(answer, TopicNeeded | RoomNeeded):
                deadline = deadline or Deadline(self.config.max_block_ms / 1000)
                await self._wait_for(answer, deadline)
                answer = self._try_many(topic, some, start, partition, stamp)
            runs.append(answer)
            start += answer[2]
            # Other tasks have their turn between batches.
            await asyncio.sleep(0)
        return run_of(runs)

    async def _wait_for(self, needed: TopicNeeded | RoomNeeded, deadline: Deadline) -> None:
        self._check_open()
        if isinstance(needed, TopicNeeded):
            await self._io.run_async(self._sender.topic_ready(needed.topic, deadline))
            return
        loop = asyncio.get_running_loop()
        room = asyncio.Event()

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(room.set)

        if not self._wait_for_room(needed.size, tell):
            return
        self._begin_urgent()
        try:
            async with asyncio.timeout(deadline.remaining):
                await room.wait()
        except TimeoutError:
            raise self._buffer_full(needed.size) from None
        finally:
            self._end_urgent()

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all that is in the buffer now is acknowledged or has failed, and its callbacks have run.

        DeliveryFailed if records failed that nobody has looked at.
        """
        self._io.check_owner(type(self).__name__)
        waited_for = self._unfinished()
        await self._settle(waited_for, timeout)
        self._raise_failures(waited_for)

    async def _settle(self, outcomes: Iterable[BatchOutcome], timeout: float | None) -> None:
        deadline = Deadline.never() if timeout is None else Deadline(timeout)
        self._begin_urgent()
        try:
            async with asyncio.timeout(None if timeout is None else deadline.remaining):
                for outcome in outcomes:
                    await outcome.wait_async()
        except TimeoutError:
            raise deadline.timed_out("flushing the producer") from None
        finally:
            self._end_urgent()
        thread = self._sender.delivery_thread
        left = None if timeout is None else deadline.remaining
        if not await asyncio.get_running_loop().run_in_executor(None, thread.drain, left):
            raise deadline.timed_out("running delivery callbacks")

    async def partitions_for(self, topic: str, timeout: float | None = None) -> tuple[TopicPartition, ...]:
        self._check_open()
        deadline = Deadline.after(timeout, self.config.max_block_ms)
        await self._io.run_async(self._sender.topic_ready(topic, deadline))
        return self._network.view.partitions_of(topic)

    async def close(self, timeout: float | None = None) -> None:
        accepted = self._begin_close()
        if accepted is None:
            return
        seconds = self._sender.delivery_timeout_s if timeout is None else timeout
        try:
            await self._settle(accepted, timeout)
        except OperationTimedOut:
            pass
        except BaseException:
            await self._shut(seconds)
            self._sender.failures.log_rest()
            raise
        await self._shut(seconds)
        self._raise_failures(())

    async def _shut(self, seconds: float) -> None:
        await self._io.run_async(self._sender.shut(OperationTimedOut("closing the producer", seconds)))
        self._abandoned.detach()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except DeliveryFailed as failed:
            if error is None:
                raise
            self._tell_beside(failed)
