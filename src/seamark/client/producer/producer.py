"""The blocking producer; any number of threads may share one.

    with Producer(bootstrap_servers="localhost:9092", value="json") as producer:
        delivery = producer.send("orders", {"id": 7}, key=b"7")
        delivery.result(timeout=10).offset

``send`` returns as soon as the record is in the buffer. It waits, at most ``max.block.ms``, for the partitions of a
topic that is new to the producer and for room in a full buffer. Acknowledgements are in the ``Delivery`` it returns,
and in ``on_delivery`` callbacks, which run in order on a thread of their own. ``close`` (or the end of ``with``) sends
what waits. Failures that nobody looked at are raised by ``flush`` and ``close``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from seamark.client.errors import DeliveryFailed, OperationTimedOut
from seamark.client.producer.delivery import BatchOutcome, Delivery, DeliveryCallback, DeliveryRun
from seamark.client.producer.handle import ProducerFacade, RoomNeeded, TopicNeeded, read_timestamp, run_of
from seamark.client.timing import Deadline
from seamark.topic_partition import TopicPartition


class Producer(ProducerFacade):
    """Takes Kafka's configuration keys; see ``ProducerFacade`` for the arguments."""

    def send(
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
        """Put a record into the buffer and return its future.

        BufferFull or OperationTimedOut when it cannot be accepted within max.block.ms.
        """
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
            self._wait_for(answer, deadline)
            answer = self._try(record)
        return answer

    def send_many(
        self, topic: str, values: Iterable[Any], *, partition: int | None = None, timestamp_ms: int | None = None
    ) -> DeliveryRun:
        """Put many values without keys into the buffer at once; they keep their order within a partition.

        Several times as fast as as many calls of ``send``. Without a partition they go to one after the other, a batch
        at a time. max.block.ms is the patience with each batch.
        """
        some = self._check_many(topic, values)
        stamp = read_timestamp(timestamp_ms)
        runs: list[tuple[BatchOutcome, int, int]] = []
        start = 0
        while start < len(some):
            answer = self._try_many(topic, some, start, partition, stamp)
            deadline: Deadline | None = None
            while isinstance(answer, TopicNeeded | RoomNeeded):
                deadline = deadline or Deadline(self.config.max_block_ms / 1000)
                self._wait_for(answer, deadline)
                answer = self._try_many(topic, some, start, partition, stamp)
            runs.append(answer)
            start += answer[2]
        return run_of(runs)

    def _wait_for(self, needed: TopicNeeded | RoomNeeded, deadline: Deadline) -> None:
        self._check_open()
        if isinstance(needed, TopicNeeded):
            self._io.run(self._sender.topic_ready(needed.topic, deadline))
            return
        room = threading.Event()
        if not self._wait_for_room(needed.size, room.set):
            return
        self._begin_urgent()
        try:
            if not room.wait(deadline.remaining):
                raise self._buffer_full(needed.size)
        finally:
            self._end_urgent()

    def flush(self, timeout: float | None = None) -> None:
        """Send everything that is in the buffer now and wait until it is acknowledged or has failed.

        DeliveryFailed if records failed, now or before, that nobody has looked at; OperationTimedOut if ``timeout``
        seconds are not enough. Without a timeout it takes delivery.timeout.ms at most.
        """
        self._io.check_owner(type(self).__name__)
        waited_for = self._unfinished()
        self._settle(waited_for, timeout)
        self._raise_failures(waited_for)

    def _settle(self, outcomes: Iterable[BatchOutcome], timeout: float | None) -> None:
        deadline = Deadline.never() if timeout is None else Deadline(timeout)
        self._begin_urgent()
        try:
            for outcome in outcomes:
                if not outcome.wait(None if timeout is None else deadline.remaining):
                    raise deadline.timed_out("flushing the producer")
        finally:
            self._end_urgent()
        if not self._sender.delivery_thread.drain(None if timeout is None else deadline.remaining):
            raise deadline.timed_out("running delivery callbacks")

    def partitions_for(self, topic: str, timeout: float | None = None) -> tuple[TopicPartition, ...]:
        """The partitions of a topic, which is created by asking where brokers allow that."""
        self._check_open()
        deadline = Deadline.after(timeout, self.config.max_block_ms)
        self._io.run(self._sender.topic_ready(topic, deadline))
        return self._network.view.partitions_of(topic)

    def close(self, timeout: float | None = None) -> None:
        """Send what waits, for at most ``timeout`` seconds or delivery.timeout.ms; may be repeated.

        From now on other threads' sends raise ClosedError; all that was accepted before is waited for. What is not
        acknowledged in time fails. DeliveryFailed if records failed that nobody has looked at; the producer is closed
        all the same. In a forked child it does nothing: the parent's producer goes on.
        """
        accepted = self._begin_close()
        if accepted is None:
            return
        seconds = self._sender.delivery_timeout_s if timeout is None else timeout
        try:
            self._settle(accepted, timeout)
        except OperationTimedOut:
            pass
        except BaseException:
            self._shut(seconds)
            self._sender.failures.log_rest()
            raise
        self._shut(seconds)
        self._raise_failures(())

    def _shut(self, seconds: float) -> None:
        self._io.run(self._sender.shut(OperationTimedOut("closing the producer", seconds)))
        self._abandoned.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except DeliveryFailed as failed:
            if error is None:
                raise
            self._tell_beside(failed)
