"""What the blocking and the awaitable consumer share: construction, and what can be read without waiting.

Everything read here is replaced as a whole by the I/O thread, never changed in place, so that a reader sees one state.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from seamark.client.arguments import read_partition
from seamark.client.config.config import ConsumerConfig
from seamark.client.consumer.calls import ConsumerCalls
from seamark.client.consumer.shell import ConsumerLoop, MakeFetcher
from seamark.client.consumer.thread_guard import ThreadGuard
from seamark.client.core import metrics as consumer_metrics
from seamark.client.core.fetch_port import Fetcher
from seamark.client.core.listener import NO_LISTENER
from seamark.client.core.membership.context import GroupMetadata
from seamark.client.core.positions.messages import Answer
from seamark.client.fetch import metrics as fetch_metrics
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoRunner
from seamark.client.net.surroundings import PROCESS, Surroundings
from seamark.client.records import LARGEST_OFFSET
from seamark.client.timing import Deadline
from seamark.counts import counted
from seamark.errors import ClosedError, UsageError
from seamark.prometheus_text import exposition
from seamark.topic_partition import TopicPartition

# What can be subscribed to: a name, names, or a pattern of names.
Topics = str | Iterable[str] | re.Pattern[str]

# How bytes become a T: a type that there is a deserializer for, or a function. ``K`` and ``V`` are what keys and values
# become, bytes where nothing is said.
T = TypeVar("T")
Reads = type[T] | Callable[[bytes], T]
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    K = TypeVarWithDefault("K", default=bytes)
    V = TypeVarWithDefault("V", default=bytes)
else:
    K = TypeVar("K")
    V = TypeVar("V")

# Kafka's own: how long close waits if nothing else is said.
CLOSE_TIMEOUT_S = 30.0
# An iteration waits for ever, in polls of this length.
ITERATION_WAIT_S = 1.0


class OffsetAndTime(NamedTuple):
    """What ``offsets_for_times`` answers: the first record at or after the time asked for."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


def fetch_from_brokers(config: ConsumerConfig, network: NetworkClient, key: Any, value: Any) -> Fetcher:
    """The fetcher that users get; loaded with the first consumer, because it brings the record decoders."""
    from seamark.client.fetch.pipeline import make_fetcher

    return make_fetcher(config, network, key, value)


class ConsumerFacade:
    def __init__(
        self,
        config_or_topics: Mapping[str, Any] | Topics | None,
        more_topics: tuple[Topics, ...],
        keywords: Mapping[str, Any],
        *,
        key: Any,
        value: Any,
        make_fetcher: MakeFetcher = fetch_from_brokers,
        who: Callable[[], int] = get_ident,
        surroundings: Surroundings = PROCESS,
    ) -> None:
        config, topics = read_arguments(config_or_topics, more_topics)
        self.config = ConsumerConfig.from_options(config, keywords)
        self._surroundings = surroundings
        self._now_ms = surroundings.now_ms
        self._within = surroundings.deadline
        self._io = surroundings.io()
        self._loop = ConsumerLoop(self.config, make_fetcher, key, value, surroundings)
        if topics is not None:
            # On this thread: the I/O thread does not know the consumer before its first call.
            self._loop.core.subscribe(topics, NO_LISTENER, self._now_ms())
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
        return {**self._loop.core.metrics.snapshot(self._now_ms()), **self._loop.fetcher.metrics()}

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
                raise UsageError("group_metadata() needs a group.id: this consumer has none")
            return self._loop.core.membership.group_metadata

    def terms(self) -> dict[TopicPartition, int]:
        """How often each assigned partition was assigned: a result that was made under another term is out of date."""
        with self._guard:
            return {state.partition: state.term for state in self._loop.core.assignment}

    @property
    def is_closed(self) -> bool:
        return self._calls.is_closed

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline.after(timeout, self.config.default_api_timeout_ms, self._surroundings.monotonic)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else counted(len(self._loop.core.assignment), "partition")
        return f"{type(self).__name__}(group {self.config.group_id!r}, {state})"


def _abandon(io: IoRunner, loop: ConsumerLoop) -> None:
    if io.owner_is_here and io.loop.is_running():
        io.submit(loop.shut())


def read_arguments(
    first: Mapping[str, Any] | Topics | None, others: tuple[Topics, ...]
) -> tuple[Mapping[str, Any] | None, Topics | None]:
    """What stands before the keywords of a consumer: Kafka's keys in a mapping, topics to subscribe to, or both."""
    if first is None or isinstance(first, Mapping):
        config, topics = first, others
    else:
        config, topics = None, (first, *others)
    # One may be a list or a pattern, as for ``subscribe``; that several are names is checked there.
    wanted: Any = topics[0] if len(topics) == 1 else topics
    return config, None if is_empty(wanted) else wanted


def is_empty(topics: object) -> bool:
    """Whether subscribing to this means to read nothing."""
    return isinstance(topics, list | tuple | set | frozenset) and not topics


def read_timestamps(wanted: object) -> dict[TopicPartition, int]:
    """What the argument of ``offsets_for_times`` means: partitions with milliseconds since 1970."""
    if not isinstance(wanted, Mapping):
        raise UsageError(f"times must map TopicPartition to milliseconds since 1970, got {wanted!r}")
    for timestamp in wanted.values():
        if isinstance(timestamp, bool) or not isinstance(timestamp, int) or not 0 <= timestamp <= LARGEST_OFFSET:
            raise UsageError(f"a time must be an integer number of milliseconds since 1970, got {timestamp!r}")
    return {read_partition(partition): timestamp for partition, timestamp in wanted.items()}


def read_offset(offset: object) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= LARGEST_OFFSET:
        raise UsageError(f"an offset must be an integer from 0 to {LARGEST_OFFSET}, got {offset!r}")
    return offset


def read_max(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} must be an integer >= 1, got {value!r}")
    return value


def plain_offsets(answers: Mapping[TopicPartition, Answer]) -> dict[TopicPartition, int]:
    return {partition: -1 if each.position is None else each.position.offset for partition, each in answers.items()}


def offsets_and_times(answers: Mapping[TopicPartition, Answer]) -> dict[TopicPartition, OffsetAndTime | None]:
    """None where no record is that young."""
    return {
        partition: None
        if answer.position is None
        else OffsetAndTime(answer.position.offset, answer.timestamp_ms, answer.position.leader_epoch)
        for partition, answer in answers.items()
    }
