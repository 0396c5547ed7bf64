"""Records that wait to be sent: one queue of batches per partition, bounded in bytes, in the order they were given.

A pure core. A batch is ready when it is full, when it has waited ``linger.ms``, when another stands behind it, or when
everybody waits (a flush, a full buffer, the end). A batch that failed comes back to the front of its queue, in order of
its sequence; nothing of its partition overtakes it. ``byte_count`` counts what was accepted and has no outcome yet.

Owner: whoever holds the producer's lock; callers add under it, the I/O thread takes and returns batches under it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from seamark.client.producer.batches import ProducerBatch
from seamark.topic_partition import TopicPartition
from seamark.wire.records.column_writer import MAX_RECORD_OVERHEAD, Headers, Values, headers_size


class RecordAccumulator:
    def __init__(self, *, batch_bytes: int, linger_ms: int, buffer_bytes: int, delivery_timeout_ms: int) -> None:
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self.buffer_bytes = buffer_bytes
        self.byte_count = 0
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._in_flight: dict[TopicPartition, set[ProducerBatch]] = {}
        self._batch_count = 0
        # Somebody waits for everything that is here: batches do not wait for more records.
        self.is_urgent = 0
        # Nothing is added any more.
        self.is_closed = False

    # -- adding

    @staticmethod
    def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """An upper bound for a record on its own: what is compared with limits before it is encoded."""
        size = MAX_RECORD_OVERHEAD + (0 if key is None else len(key)) + (0 if value is None else len(value))
        return size + headers_size(headers) if headers else size

    def has_room(self, size: int) -> bool:
        return self.byte_count + size <= self.buffer_bytes

    def append(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        size: int,
        now_ms: int,
    ) -> tuple[ProducerBatch, int, bool]:
        """Add a record of at most ``size`` bytes: its batch, its place there, and whether the sender should look."""
        batch, is_new = self._open_batch(partition, size, now_ms)
        before = batch.byte_count
        index = batch.append(key, value, headers, timestamp_ms)
        added = batch.byte_count - before
        batch.reserved_bytes += added
        self.byte_count += added
        is_full = batch.byte_count >= self._batch_bytes
        batch.is_closed |= is_full
        return batch, index, is_new or is_full

    def append_many(
        self, partition: TopicPartition, some: Values, start: int, timestamp_ms: int, now_ms: int
    ) -> tuple[ProducerBatch, int, int]:
        """Add as many of the values from ``start`` on as one batch takes: it, the first one's place, and how many."""
        batch, _ = self._open_batch(partition, len(some.values[start]) + MAX_RECORD_OVERHEAD, now_ms)
        before = batch.byte_count
        index, count = batch.append_many(some, start, timestamp_ms, self._batch_bytes - before)
        added = batch.byte_count - before
        batch.reserved_bytes += added
        self.byte_count += added
        batch.is_closed |= start + count < len(some) or batch.byte_count >= self._batch_bytes
        return batch, index, count

    def _open_batch(self, partition: TopicPartition, size: int, now_ms: int) -> tuple[ProducerBatch, bool]:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
        if queue:
            last = queue[-1]
            if not last.is_closed and last.byte_count + size <= self._batch_bytes:
                return last, False
            last.is_closed = True
        self._batch_count += 1
        batch = ProducerBatch(partition, now_ms, (self._batch_count,))
        queue.append(batch)
        return batch, True

    def is_last_batch_full(self, partition: TopicPartition) -> bool:
        queue = self._queues.get(partition)
        return not queue or queue[-1].is_closed

    # -- taking

    def is_ready(self, batch: ProducerBatch, now_ms: int, *, is_alone: bool) -> bool:
        if batch.retry_at_ms > now_ms:
            return False
        return bool(
            batch.is_closed
            or batch.attempts
            or not is_alone
            or self.is_urgent
            or now_ms >= batch.created_ms + self._linger_ms
        )

    def ready_partitions(self, now_ms: int) -> list[TopicPartition]:
        """Partitions whose first batch may be sent now."""
        return [
            partition
            for partition, queue in self._queues.items()
            if queue and self.is_ready(queue[0], now_ms, is_alone=len(queue) == 1)
        ]

    def next_ready_ms(self, now_ms: int) -> int | None:
        """When a batch that waits will be ready by itself."""
        times = []
        for queue in self._queues.values():
            if queue:
                first = queue[0]
                at = first.retry_at_ms if first.attempts else first.created_ms + self._linger_ms
                if at > now_ms:
                    times.append(at)
        return min(times, default=None)

    def first(self, partition: TopicPartition) -> ProducerBatch | None:
        queue = self._queues.get(partition)
        return queue[0] if queue else None

    def take(self, partition: TopicPartition) -> ProducerBatch:
        """Take the first batch to send it."""
        batch = self._queues[partition].popleft()
        batch.is_closed = True
        self._in_flight.setdefault(partition, set()).add(batch)
        return batch

    def in_flight_count(self, partition: TopicPartition) -> int:
        return len(self._in_flight.get(partition, ()))

    def is_in_flight(self, batch: ProducerBatch) -> bool:
        return batch in self._in_flight.get(batch.partition, ())

    def put_back(self, batch: ProducerBatch, retry_at_ms: int) -> None:
        """A batch that was taken and is to be sent again goes before all that came later."""
        self._landed(batch)
        batch.retry_at_ms = retry_at_ms
        self._insert(batch)

    def _insert(self, batch: ProducerBatch) -> None:
        queue = self._queues.setdefault(batch.partition, deque())
        index = 0
        while index < len(queue) and queue[index].place < batch.place:
            index += 1
        queue.insert(index, batch)

    def _landed(self, batch: ProducerBatch) -> None:
        flying = self._in_flight.get(batch.partition)
        if flying is not None:
            flying.discard(batch)
            if not flying:
                del self._in_flight[batch.partition]

    def replace(self, batch: ProducerBatch, halves: Sequence[ProducerBatch]) -> None:
        """A batch in flight was too large: its halves wait in its place."""
        self._landed(batch)
        for half in halves:
            self._insert(half)

    def finish(self, batch: ProducerBatch) -> None:
        """The batch has its outcome, and no answer to it is awaited: its bytes are free."""
        self._landed(batch)
        self.byte_count -= batch.reserved_bytes
        batch.reserved_bytes = 0
        batch.release()

    # -- giving up

    def expired(self, now_ms: int) -> list[ProducerBatch]:
        """Batches whose delivery.timeout.ms has passed, waiting or in flight; those that waited are taken out."""
        too_old = now_ms - self._delivery_timeout_ms
        expired = [batch for batch in self._flying() if batch.created_ms <= too_old and not batch.outcome.is_done]
        for queue in self._queues.values():
            # In order, and the oldest in front.
            while queue and queue[0].created_ms <= too_old:
                queue[0].is_closed = True
                expired.append(queue.popleft())
        return expired

    def next_expiry_ms(self) -> int | None:
        first = [queue[0] for queue in self._queues.values() if queue]
        created = [batch.created_ms for batch in (*first, *self._flying()) if not batch.outcome.is_done]
        return min(created) + self._delivery_timeout_ms if created else None

    def take_all(self, wanted: Callable[[ProducerBatch], bool] = lambda _: True) -> list[ProducerBatch]:
        """Every waiting batch that is wanted, taken out for good."""
        taken: list[ProducerBatch] = []
        for partition, queue in self._queues.items():
            taken += [batch for batch in queue if wanted(batch)]
            self._queues[partition] = deque(batch for batch in queue if not wanted(batch))
        for batch in taken:
            batch.is_closed = True
        return taken

    def unfinished(self, *, close: bool = True) -> list[ProducerBatch]:
        """Every batch without an outcome; the open ones are closed: they take no more records."""
        waiting = [batch for queue in self._queues.values() for batch in queue]
        for batch in waiting:
            batch.is_closed |= close
        return [*waiting, *self._flying()]

    def close(self) -> list[ProducerBatch]:
        """Take no more records, for good; gives every batch without an outcome."""
        self.is_closed = True
        return self.unfinished()

    def _flying(self) -> list[ProducerBatch]:
        return [batch for batches in self._in_flight.values() for batch in batches]

    @property
    def is_room_worth_telling(self) -> bool:
        """Whether those who wait for room should look: not for every batch that is done, but before all are."""
        return 16 * (self.buffer_bytes - self.byte_count) >= self.buffer_bytes or not self._in_flight

    @property
    def is_empty(self) -> bool:
        return not self._in_flight and not any(self._queues.values())

    def queue_lengths(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Batches waiting per partition, for partitioners that prefer shorter queues."""
        return {index: len(self._queues.get(TopicPartition(topic, index), ())) for index in partitions}
