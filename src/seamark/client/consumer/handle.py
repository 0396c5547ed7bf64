"""What the blocking and the awaitable consumer share: construction, and what can be read without waiting.

Everything read here is replaced as a whole by the I/O thread, never changed in place, so that a reader sees one state.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from threading import get_ident
from typing import Any

from seamark.client.arguments import read_partition
from seamark.client.config.config import ConsumerConfig
from seamark.client.consumer.calls import ConsumerCalls
from seamark.client.consumer.shell import ConsumerLoop, MakeFetcher
from seamark.client.consumer.thread_guard import ThreadGuard
from seamark.client.core import metrics as consumer_metrics
from seamark.client.core.fetch_port import Fetcher
from seamark.client.core.membership.context import GroupMetadata
from seamark.client.core.positions.messages import Answer
from seamark.client.fetch import metrics as fetch_metrics
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.records import LARGEST_OFFSET
from seamark.client.timing import Deadline, now_ms
from seamark.counts import counted
from seamark.errors import ClosedError, UsageError
from seamark.prometheus_text import exposition
from seamark.topic_partition import TopicPartition

# Kafka's own: how long close waits if nothing else is said.
CLOSE_TIMEOUT_S = 30.0
# An iteration waits for ever, in polls of this length.
ITERATION_WAIT_S = 1.0


def fetch_from_brokers(config: ConsumerConfig, network: NetworkClient, key: Any, value: Any) -> Fetcher:
    """The fetcher that users get; loaded with the first consumer, because it brings the record decoders."""
    from seamark.client.fetch.pipeline import make_fetcher

    return make_fetcher(config, network, key, value)


class ConsumerFacade:
    def __init__(
        self,
        config: Mapping[str, Any] | None,
        keywords: Mapping[str, Any],
        *,
        key: Any,
        value: Any,
        make_fetcher: MakeFetcher = fetch_from_brokers,
        who: Callable[[], int] = get_ident,
    ) -> None:
        self.config = ConsumerConfig.from_options(config, keywords)
        self._io = IoThread.get()
        self._loop = ConsumerLoop(self.config, make_fetcher, key, value)
        self._calls = ConsumerCalls(self._loop)
        self._guard = ThreadGuard(type(self).__name__, who, self._io.check_owner)
        # A consumer that is dropped without being closed must not beat for ever.
        self._abandoned = weakref.finalize(self, _abandon, self._io, self._loop)
        self._abandoned.atexit = False

    # Exempt from the guard (I18).

    def wakeup(self) -> None:
        """End the waiting of another thread: its call, or else the next that waits, raises WakeUp."""
        self._loop.is_woken = True
        self._io.call_soon(self._loop.wake)

    def metrics(self) -> dict[str, float]:
        """Every metric by its Prometheus name; may be called from any thread."""
        return {**self._loop.core.metrics.snapshot(now_ms()), **self._loop.fetcher.metrics()}

    def metrics_text(self) -> str:
        """The metrics in Prometheus' text format, labelled with client id and group; from any thread."""
        labels = {"client_id": self.config.client_id, "group": self.config.group_id}
        return exposition(self.metrics(), {**consumer_metrics.KAFKA_NAMES, **fetch_metrics.KAFKA_NAMES}, labels)

    def _columns(self, partition: object, start: object, end: object, options: Mapping[str, Any]) -> Iterator[Any]:
        """Exact ranges over the consumer's connections, apart from its position and group."""
        from seamark.client.fetch.ranges import fetch_columns

        if self.is_closed:
            raise ClosedError(f"the {type(self).__name__} is closed")
        first, behind = read_offset(start), read_offset(end)
        return fetch_columns(self._loop.network, self.config, read_partition(partition), first, behind, **options)

    # Read without waiting.

    def assignment(self) -> frozenset[TopicPartition]:
        with self._guard:
            return frozenset(self._loop.core.assignment.partitions)

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to; of a pattern, those that matched."""
        with self._guard:
            return frozenset(self._loop.core.subscription.topics)

    def paused(self) -> frozenset[TopicPartition]:
        with self._guard:
            return frozenset(state.partition for state in self._loop.core.assignment if state.is_paused)

    def group_metadata(self) -> GroupMetadata:
        with self._guard:
            if not self._loop.core.settings.has_group:
                raise UsageError("a consumer without a group.id is not in any group")
            return self._loop.core.membership.group_metadata

    def terms(self) -> dict[TopicPartition, int]:
        """How often each assigned partition was assigned: a result that was made under another term is out of date."""
        with self._guard:
            return {state.partition: state.term for state in self._loop.core.assignment}

    @property
    def is_closed(self) -> bool:
        return self._calls.is_closed

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline.after(timeout, self.config.default_api_timeout_ms)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else counted(len(self._loop.core.assignment), "partition")
        return f"{type(self).__name__}(group {self.config.group_id!r}, {state})"


def _abandon(io: IoThread, loop: ConsumerLoop) -> None:
    if io.owner_is_here and io.loop.is_running():
        io.submit(loop.shut())


def read_timestamps(wanted: object) -> dict[TopicPartition, int]:
    """What the argument of ``offsets_for_times`` means: partitions with milliseconds since 1970."""
    if not isinstance(wanted, Mapping):
        raise UsageError(f"times are a mapping from TopicPartition to milliseconds since 1970, not {wanted!r}")
    for timestamp in wanted.values():
        if isinstance(timestamp, bool) or not isinstance(timestamp, int) or not 0 <= timestamp <= LARGEST_OFFSET:
            raise UsageError(f"a time is a whole number of milliseconds since 1970, not {timestamp!r}")
    return {read_partition(partition): timestamp for partition, timestamp in wanted.items()}


def read_offset(offset: object) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= LARGEST_OFFSET:
        raise UsageError(f"an offset is a whole number from 0 to {LARGEST_OFFSET}, not {offset!r}")
    return offset


def read_max(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} is a whole number from 1 on, not {value!r}")
    return value


def plain_offsets(answers: Mapping[TopicPartition, Answer]) -> dict[TopicPartition, int]:
    return {partition: -1 if each.position is None else each.position.offset for partition, each in answers.items()}
