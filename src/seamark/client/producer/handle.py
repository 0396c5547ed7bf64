"""What the blocking and the awaitable producer share: everything about sending that does not wait.

A record is added in the caller's thread under the producer's lock, which is held for microseconds. What can make a
caller wait, unknown topics and a full buffer, is asked for here and waited for in the facades.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from seamark.client.callback_kinds import refuse_coroutine, refuse_generator
from seamark.client.config.config import ProducerConfig
from seamark.client.errors import BufferFull, DeliveryFailed, RecordTooLarge
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.producer.batches import ProducerBatch
from seamark.client.producer.delivery import BatchOutcome, Delivery, DeliveryCallback, DeliveryRun
from seamark.client.producer.metrics import KAFKA_NAMES, snapshot
from seamark.client.producer.partitioning import PartitionChooser
from seamark.client.producer.sender import ProducerSender
from seamark.client.serde.serializers import ByTopic, load_serializer, to_bytes
from seamark.client.timing import now_ms
from seamark.counts import counted
from seamark.errors import ClosedError, UsageError
from seamark.partitioners import Choices
from seamark.prometheus_text import exposition
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition
from seamark.wire.records.column_writer import MAX_RECORD_OVERHEAD, SMALL_OVERHEAD, Headers, Values

log = readable_logger("seamark.client")

# What a producer without serializers takes, for keys and for values.
Bytes = bytes | bytearray | memoryview

# How a T becomes bytes: a type that there is a serializer for, or a function. ``K`` and ``V`` are the types of keys and
# values that a producer takes; where a function does not say, anything.
T = TypeVar("T")
Writes = type[T] | Callable[[T], bytes]
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    K = TypeVarWithDefault("K", default=Any)
    V = TypeVarWithDefault("V", default=Any)
    K_contra = TypeVarWithDefault("K_contra", contravariant=True, default=Any)
    V_contra = TypeVarWithDefault("V_contra", contravariant=True, default=Any)
else:
    K = TypeVar("K")
    V = TypeVar("V")
    K_contra = TypeVar("K_contra", contravariant=True)
    V_contra = TypeVar("V_contra", contravariant=True)


class BySchema(Protocol):
    """Makes a serializer for keys or for values, as ``Avro`` does; what it can write, no type says."""

    def serializer(self, part: str, /) -> ByTopic: ...


_CLOSED = "the producer is closed"
_LARGEST_TIMESTAMP = 2**63 - 1


class Outgoing(NamedTuple):
    """A checked record."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    headers: Headers
    timestamp_ms: int
    size: int
    on_delivery: DeliveryCallback | None


class TopicNeeded(NamedTuple):
    """Sending has to wait until the partitions of this topic are known."""

    topic: str


class RoomNeeded(NamedTuple):
    """Sending has to wait until the buffer has so many bytes free."""

    size: int


class _Lane:
    """The batch that records without a key go to at the moment, how large it may get, and what was reported of it."""

    __slots__ = ("batch", "most_bytes", "outcome", "reported_bytes")

    def __init__(self, batch: ProducerBatch, most_bytes: int) -> None:
        self.batch = batch
        self.outcome = batch.outcome
        self.most_bytes = most_bytes
        # What the partition chooser has heard of.
        self.reported_bytes = batch.byte_count


class ProducerFacade:
    def __init__(self, config: Mapping[str, Any] | None, keywords: Mapping[str, Any], *, key: Any, value: Any) -> None:
        self.config = ProducerConfig.from_options(config, keywords)
        self._key = load_serializer("key", key)
        self._value = load_serializer("value", value)
        self._chooser = PartitionChooser(self.config)
        self._io = IoThread.get()
        self._network = NetworkClient(self.config)
        self._sender = ProducerSender(self.config, self._network)
        self._accumulator = self._sender.accumulator
        self._lock = self._sender.lock
        self.is_closed = False
        # By topic; changed under the lock. In a forked child there are none, so that nothing is added quickly there.
        self._lanes: dict[str, _Lane] = self._sender.lanes
        # A producer that is dropped without being closed delivers what it has, and then ends its connections.
        self._abandoned = weakref.finalize(self, _abandon, self._io, self._sender)
        self._abandoned.atexit = False

    # -- checking

    def _outgoing(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None],
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> Outgoing:
        self._check_open()
        _check_topic(topic)
        key_bytes = to_bytes("key", key, self._key, topic)
        value_bytes = to_bytes("value", value, self._value, topic)
        checked = _read_headers(headers) if headers else ()
        size = self._accumulator.record_bytes(key_bytes, value_bytes, checked)
        self._check_size(topic, size)
        if on_delivery is not None and not callable(on_delivery):
            raise UsageError(f"on_delivery must be a function of (delivered, error), got {on_delivery!r}")
        if on_delivery is not None:
            refuse_generator("on_delivery", on_delivery)
            refuse_coroutine("on_delivery", on_delivery, "it would not be awaited: await the result of send() instead")
            self._sender.delivery_thread.start()
        stamp = read_timestamp(timestamp_ms)
        return Outgoing(topic, key_bytes, value_bytes, partition, checked, stamp, size, on_delivery)

    def _check_size(self, topic: str, size: int) -> None:
        if size > self.config.max_request_size:
            raise RecordTooLarge(topic, size, "max.request.size", self.config.max_request_size)
        if size > self.config.buffer_memory:
            raise RecordTooLarge(topic, size, "buffer.memory", self.config.buffer_memory)

    def _check_open(self) -> None:
        self._io.check_owner(type(self).__name__)
        self._check_accepting()

    def _check_accepting(self) -> None:
        """Asked again under the lock with which a record is added: closing waits for all that were added before."""
        if self._accumulator.is_closed:
            raise ClosedError(_CLOSED)

    # -- adding

    def _quick(self, topic: str, value: bytes) -> Delivery | None:
        """Add a value without anything else to the batch under way; None if it takes more than that."""
        lane = self._lanes.get(topic) if type(topic) is str else None
        if lane is None:
            return None
        accumulator = self._accumulator
        batch = lane.batch
        stamp = int(time.time() * 1000)
        with self._lock:
            if accumulator.byte_count + len(value) + SMALL_OVERHEAD > accumulator.buffer_bytes:
                return None
            # Takes nothing once the producer is being closed: that closes every batch.
            size = batch.append_plain(value, stamp, lane.most_bytes)
            if not size:
                return None
            accumulator.byte_count += size
            place = batch.count - 1
        return Delivery(lane.outcome, place)

    def _leave_lane(self, topic: str, choices: Choices) -> None:
        """Under the lock: tell the chooser what went to the topic's lane, before it chooses again."""
        lane = self._lanes.pop(topic, None)
        if lane is not None and lane.batch.byte_count > lane.reported_bytes:
            size = lane.batch.byte_count - lane.reported_bytes
            index = lane.batch.partition.partition
            lengths = self._accumulator.queue_lengths
            self._chooser.appended(topic, index, size, choices, lengths, is_batch_full=False)

    def _enter_lane(self, topic: str, batch: ProducerBatch) -> None:
        """Under the lock: records without keys may follow to this batch, as long as its partition is the chosen one."""
        left = self._chooser.sticky_bytes_left(topic, batch.partition.partition)
        if left > 0 and not batch.is_closed and not batch.has_keys:
            self._lanes[topic] = _Lane(batch, min(self.config.batch_size, batch.byte_count + left))

    def _try(self, record: Outgoing) -> Delivery | TopicNeeded | RoomNeeded:
        """Add the record if nothing stands in the way."""
        topic = record.topic
        with self._lock:
            self._check_accepting()
            choices = self._chooser.choices(topic, self._network.view)
            if choices is None:
                return TopicNeeded(topic)
            if not self._accumulator.has_room(record.size):
                return RoomNeeded(record.size)
            if is_free := self._chooser.is_free(record.key, record.partition):
                self._leave_lane(topic, choices)
            index = self._chooser.choose(topic, record.key, record.value, record.partition, choices)
            batch, place, look = self._accumulator.append(
                TopicPartition(topic, index),
                record.key,
                record.value,
                record.headers,
                record.timestamp_ms,
                record.size,
                now_ms(),
            )
            if record.on_delivery is not None:
                batch.callbacks.append((place, record.on_delivery))
            if is_free:
                self._chooser.appended(
                    topic,
                    index,
                    record.size,
                    choices,
                    self._accumulator.queue_lengths,
                    is_batch_full=batch.is_closed,
                )
                self._enter_lane(topic, batch)
        if look:
            self._sender.nudge()
        return Delivery(batch.outcome, place)

    def _check_many(self, topic: str, values: object) -> Values:
        self._check_open()
        _check_topic(topic)
        if not isinstance(values, Iterable) or isinstance(values, str | bytes | bytearray | memoryview):
            raise UsageError(f"send_many takes an iterable of values, got {values!r}")
        checked = list(values)
        if self._value is not None or list(map(type, checked)).count(bytes) != len(checked):
            made = [to_bytes("value", value, self._value, topic) for value in checked]
            checked = [value for value in made if value is not None]
            if len(checked) < len(made):
                raise UsageError("send_many does not take None: write tombstones with send()")
        some = Values(checked)
        self._check_size(topic, some.longest + MAX_RECORD_OVERHEAD)
        return some

    def _try_many(
        self, topic: str, some: Values, start: int, partition: int | None, timestamp_ms: int
    ) -> tuple[BatchOutcome, int, int] | TopicNeeded | RoomNeeded:
        """Add as many values from ``start`` on as one batch takes."""
        with self._lock:
            self._check_accepting()
            choices = self._chooser.choices(topic, self._network.view)
            if choices is None:
                return TopicNeeded(topic)
            # Room for a whole batch at a time: records that wait for room would make small batches.
            first = some.values[start]
            size = max(min(self.config.batch_size, self.config.buffer_memory), len(first) + MAX_RECORD_OVERHEAD)
            if not self._accumulator.has_room(size):
                return RoomNeeded(size)
            if partition is None:
                self._leave_lane(topic, choices)
            index = self._chooser.choose(topic, None, first, partition, choices)
            batch, place, count = self._accumulator.append_many(
                TopicPartition(topic, index), some, start, timestamp_ms, now_ms()
            )
            if partition is None:
                self._chooser.appended(
                    topic,
                    index,
                    self.config.batch_size if batch.is_closed else batch.byte_count,
                    choices,
                    self._accumulator.queue_lengths,
                    is_batch_full=batch.is_closed,
                )
        self._sender.nudge()
        return batch.outcome, place, count

    # -- waiting

    def _begin_urgent(self) -> None:
        """Somebody waits for what is here: batches do not linger until ``_end_urgent``."""
        with self._lock:
            self._accumulator.is_urgent += 1
        self._sender.nudge()

    def _end_urgent(self) -> None:
        with self._lock:
            self._accumulator.is_urgent -= 1

    def _unfinished(self) -> list[BatchOutcome]:
        return [batch.outcome for batch in self._sender.unfinished()]

    def _begin_close(self) -> list[BatchOutcome] | None:
        """Accept no more records; gives what was accepted, or None if there is nothing to close here."""
        if not self._io.owner_is_here:
            return None
        with self._lock:
            if self.is_closed:
                return None
            self.is_closed = True
        return [batch.outcome for batch in self._sender.stop_accepting()]

    def _wait_for_room(self, size: int, tell: Callable[[], None]) -> bool:
        """Have ``tell`` called when there may be room; False if there is room already."""
        with self._lock:
            self._check_accepting()
            if self._accumulator.has_room(size):
                return False
            self._sender.room_waiters.append(tell)
        return True

    def _raise_failures(self, waited_for: Iterable[BatchOutcome]) -> None:
        """DeliveryFailed if records failed that nobody was told about; with that they are told."""
        failed = self._sender.failures.take(failure for outcome in waited_for for failure in outcome.failures())
        if failed is not None:
            raise failed

    @staticmethod
    def _tell_beside(failed: DeliveryFailed) -> None:
        """Another exception is on its way, and is not replaced."""
        log.error("%s", failed)

    def _buffer_full(self, size: int) -> BufferFull:
        return BufferFull(size, self.config.buffer_memory, self.config.max_block_ms / 1000)

    def metrics(self) -> dict[str, float]:
        """Counts by their Prometheus names; may be called from any thread."""
        return snapshot(self._sender.counts, self._accumulator.byte_count, self.config.buffer_memory)

    def metrics_text(self) -> str:
        """The metrics in Prometheus' text format, labelled with the client id; from any thread."""
        return exposition(self.metrics(), KAFKA_NAMES, {"client_id": self.config.client_id})

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{counted(self._accumulator.byte_count, 'byte')} in flight"
        return f"{type(self).__name__}({', '.join(self.config.bootstrap_servers)}, {state})"


def _check_topic(topic: object) -> None:
    if not isinstance(topic, str) or not topic:
        raise UsageError(f"the topic of a record must be a name, got {topic!r}")


def read_timestamp(timestamp_ms: int | None) -> int:
    if timestamp_ms is None:
        return int(time.time() * 1000)
    if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int):
        raise UsageError(f"timestamp_ms must be an integer number of milliseconds since 1970, got {timestamp_ms!r}")
    if not 0 <= timestamp_ms <= _LARGEST_TIMESTAMP:
        raise UsageError(f"timestamp_ms must be from 0 to {_LARGEST_TIMESTAMP}, got {timestamp_ms}")
    return timestamp_ms


def _read_headers(headers: Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]) -> Headers:
    pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise UsageError(f"headers must be pairs of a name and bytes, got {pair!r}")
        if pair[1] is not None and not isinstance(pair[1], bytes | bytearray | memoryview):
            raise UsageError(f"the value of header {pair[0]!r} must be bytes or None, got {type(pair[1]).__name__}")
        if not pair[0].isprintable() and not _is_utf8(pair[0]):
            raise UsageError(f"the name of header {pair[0]!r} cannot be encoded as UTF-8")
    return pairs


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _abandon(io: IoThread, sender: ProducerSender) -> None:
    if io.owner_is_here and io.loop.is_running():
        io.submit(sender.retire())


def run_of(runs: list[tuple[BatchOutcome, int, int]]) -> DeliveryRun:
    return DeliveryRun(tuple(runs))
