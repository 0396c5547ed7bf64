"""What a user says to a parallel consumer: order, retries, batches, commits, and what becomes of hopeless records.

All are frozen values that check themselves when they are made, so that a wrong number is one sentence at start and not
a surprise at run time. Durations are float seconds.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from seamark.errors import ConfigError
from seamark.parallel.core.handler_kinds import is_async, never_runs
from seamark.wire.offsets.done_ahead import DEFAULT_LENGTH, MAX_LENGTH

Delivery = Literal["at_least_once", "at_most_once", "whole_batch"]
DELIVERIES = ("at_least_once", "at_most_once", "whole_batch")
# The longest metadata whose length every tool reads right: some read it as a one-byte number.
SHORT_METADATA = 126


class Order(enum.Enum):
    """Which records may run at the same time.

    KEY: records of one key run one after the other, in offset order; other keys overtake them. A record without a key
    has no order to keep. PARTITION: one record per partition at a time. NONE: all at once.
    """

    KEY = "key"
    PARTITION = "partition"
    NONE = "none"


def _number(option: str, value: object, *, least: float, open_end: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise ConfigError(option, value, "must be a number")
    if value < least or (math.isinf(value) and not open_end):
        raise ConfigError(option, value, f"must be at least {least:g}" if value < least else "must be finite")


def _whole(option: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(option, value, "must be an integer")
    if value < least:
        raise ConfigError(option, value, f"must be at least {least}")


def _callback(option: str, value: object) -> None:
    if not callable(value):
        raise ConfigError(option, value, "is not callable")
    reason = "is async, but would not be awaited" if is_async(value) else never_runs(value)
    if reason is not None:
        raise ConfigError(option, value, reason)


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and when a failed record is run again.

    ``attempts`` counts all runs of the handler, the first included. The wait before run n + 1 is ``delay`` times
    ``factor`` to the power of n - 1, at most ``max_delay``, and then shortened by a random share of up to ``jitter``.
    ``by_type`` gives some exceptions a policy of their own, or None: never again; the most derived class wins.
    """

    attempts: int = 5
    delay: float = 0.2
    factor: float = 2.0
    max_delay: float = 30.0
    jitter: float = 0.2
    by_type: Mapping[type[BaseException], Retry | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _whole("attempts", self.attempts, least=1)
        _number("delay", self.delay, least=0)
        _number("factor", self.factor, least=1)
        _number("max_delay", self.max_delay, least=0)
        _number("jitter", self.jitter, least=0)
        if self.jitter > 1:
            raise ConfigError("jitter", self.jitter, "must be a fraction of the delay, from 0 to 1")
        for kind, policy in self.by_type.items():
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise ConfigError("by_type", kind, "must be an exception class")
            if policy is not None and not isinstance(policy, Retry):
                raise ConfigError("by_type", policy, "must be a Retry or None")


@dataclass(frozen=True, slots=True)
class Batch:
    """Hand records to the handler as a list: up to ``records`` of them, waiting at most ``wait`` seconds for more."""

    records: int = 500
    wait: float = 0.05
    arrow: bool = False

    def __post_init__(self) -> None:
        _whole("records", self.records, least=1)
        _number("wait", self.wait, least=0)


@dataclass(frozen=True, slots=True)
class Commit:
    """When offsets are committed: every ``interval`` seconds, sooner once ``records`` are done, always when revoked.

    ``sync`` waits for the answer of one commit before anything else is started. ``on_commit`` is called with what was
    committed and the error or None. ``metadata_length`` is the broker's ``offset.metadata.max.bytes``.
    """

    interval: float = 1.0
    records: int | None = None
    sync: bool = False
    on_commit: Callable[[Mapping[Any, int], BaseException | None], object] | None = None
    metadata_length: int = DEFAULT_LENGTH

    def __post_init__(self) -> None:
        _number("interval", self.interval, least=0.001)
        if self.records is not None:
            _whole("records", self.records, least=1)
        _whole("metadata_length", self.metadata_length, least=0)
        if self.metadata_length > MAX_LENGTH:
            raise ConfigError("metadata_length", self.metadata_length, f"must be at most {MAX_LENGTH}")
        if self.on_commit is not None:
            _callback("on_commit", self.on_commit)


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the consumer at a record that cannot be processed. Nothing behind it is lost: it is not committed."""


@dataclass(frozen=True, slots=True)
class GivingUp:
    """What DeadLetter and Skip share: when so many records are given up that the fault must lie elsewhere.

    Of the last ``window`` records that ended, at most the share ``max_ratio`` may have been given up; else the consumer
    stops. None: no limit.
    """

    max_ratio: float | None = 0.5
    window: int = 100

    def __post_init__(self) -> None:
        _whole("window", self.window, least=1)
        if self.max_ratio is not None:
            _number("max_ratio", self.max_ratio, least=0)
            if self.max_ratio > 1:
                raise ConfigError("max_ratio", self.max_ratio, "must be a fraction of the records, from 0 to 1")


@dataclass(frozen=True, slots=True)
class DeadLetter(GivingUp):
    """Write the record to another topic and go on; ``{topic}`` in the name stands for the topic it came from."""

    topic: str = "{topic}.dead-letters"

    def __post_init__(self) -> None:
        # super() without arguments does not work in a dataclass with slots, which is a new class.
        GivingUp.__post_init__(self)
        if not isinstance(self.topic, str) or not self.topic:
            raise ConfigError("topic", self.topic, "is not a valid topic name")
        try:
            self.topic.format(topic="t")
        except (KeyError, IndexError, ValueError):
            raise ConfigError("topic", self.topic, "must not have placeholders other than {topic}") from None

    def topic_for(self, source: str) -> str:
        return self.topic.format(topic=source)


@dataclass(frozen=True, slots=True)
class Skip(GivingUp):
    """Leave the record out, counted and logged, and go on."""


@dataclass(frozen=True, slots=True)
class Park:
    """Keep the record unfinished: its key waits, other keys go on, the committed offset stays below it.

    It runs again after a restart, or is ended by ``skip`` or ``dead_letter``. More than ``records`` parked ones stop
    the consumer.
    """

    records: int = 100

    def __post_init__(self) -> None:
        _whole("records", self.records, least=1)


Then: TypeAlias = Stop | DeadLetter | Skip | Park


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it, checked together."""

    order: Order = Order.KEY
    concurrency: int = 64
    batch: Batch | None = None
    delivery: Delivery = "at_least_once"
    retry: Retry = Retry()
    then: Then = Stop()
    commit: Commit = Commit()
    buffer_bytes: int = 64 << 20
    buffer_records: int = 250_000
    # True: as long as the broker allows. A number: at most so many characters; see SHORT_METADATA.
    done_ahead: bool | int = True
    drain: float = 30.0
    stall_after: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.order, Order):
            raise ConfigError("order", self.order, "must be one of Order.KEY, Order.PARTITION, Order.NONE")
        if self.delivery not in DELIVERIES:
            raise ConfigError("delivery", self.delivery, f"must be one of {', '.join(DELIVERIES)}")
        for option, kinds in (("retry", (Retry,)), ("commit", (Commit,)), ("then", (Stop, DeadLetter, Skip, Park))):
            if not isinstance(getattr(self, option), kinds):
                raise ConfigError(option, getattr(self, option), f"is not a {' or '.join(k.__name__ for k in kinds)}")
        if self.batch is not None and not isinstance(self.batch, Batch):
            raise ConfigError("batch", self.batch, "must be a Batch")
        _whole("concurrency", self.concurrency, least=1)
        _whole("buffer_bytes", self.buffer_bytes, least=1)
        _whole("buffer_records", self.buffer_records, least=1)
        _number("drain", self.drain, least=0)
        _number("stall_after", self.stall_after, least=0, open_end=True)
        if not isinstance(self.done_ahead, bool):
            _whole("done_ahead", self.done_ahead, least=0)

    @property
    def wants_columns(self) -> bool:
        """Whether records can be handled as columns from the fetch on: nothing looks at single keys."""
        return self.batch is not None and self.batch.arrow and self.order is not Order.KEY

    @property
    def metadata_length(self) -> int:
        """Characters that the done-ahead map may take; 0 writes none."""
        if isinstance(self.done_ahead, bool):
            return self.commit.metadata_length if self.done_ahead else 0
        return min(self.done_ahead, self.commit.metadata_length)
