"""The producers of this process, kept between tasks, and whether a topic can be written to.

Spark reuses its Python workers, so a producer with its connections and its idempotent identity serves many tasks. One
task has it at a time; after an error it is thrown away, with whatever waited in its buffer. Keys are all of a
producer's settings, and the process: a forked child makes its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from seamark.client import DeliveryFailed
from seamark.client.errors import BrokerError, OperationTimedOut
from seamark.errors import SeamarkError
from seamark.spark.write.options import WriteOptions
from seamark.wire.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from seamark.client import Producer

# A broker that makes topics by itself has made one by then; who waits longer only hears later that there is none.
_TOPIC_TIMEOUT_S = 15.0

_Key = tuple[int, tuple[tuple[str, str], ...]]
_lock = threading.Lock()
_idle: dict[_Key, list[Producer]] = {}
_known_topics: set[tuple[_Key, str]] = set()


class CannotWrite(SeamarkError):
    """The topic does not exist and is not made by writing to it."""

    def __init__(self, topic: str, servers: str) -> None:
        super().__init__(
            f"topic {topic!r} does not exist on {servers}, and the broker does not create topics: create it"
        )
        self.topic = topic
        self.servers = servers

    def __reduce__(self) -> tuple[type[CannotWrite], tuple[str, str]]:
        return type(self), (self.topic, self.servers)


@contextmanager
def producer_for(options: WriteOptions) -> Iterator[Producer]:
    """A producer with these settings, to be used by one task."""
    from seamark.client import Producer

    key = (os.getpid(), options.settings)
    with _lock:
        idle = _idle.get(key)
        producer = idle.pop() if idle else None
    if producer is None:
        producer = Producer(dict(options.settings))
    try:
        yield producer
    except BaseException:
        # The task fails with its own error, and Spark runs it again: what waited is not missed.
        with suppress(DeliveryFailed):
            producer.close(timeout=0)
        raise
    with _lock:
        _idle.setdefault(key, []).append(producer)


def check_topic(options: WriteOptions, topic: str) -> None:
    """Know before the rows come that the topic can be written to; a broker that makes topics makes it now."""
    key = (os.getpid(), options.settings)
    if (key, topic) in _known_topics:
        return
    with producer_for(options) as producer:
        wait_for_topic(producer, topic)
    _known_topics.add((key, topic))


def wait_for_topic(producer: Producer, topic: str) -> None:
    """Until the topic's partitions are known; CannotWrite if the brokers say that there is no such topic."""
    try:
        producer.partitions_for(topic, timeout=min(_TOPIC_TIMEOUT_S, producer.config.max_block_ms / 1000))
    except OperationTimedOut as error:
        cause = error.last_error
        if isinstance(cause, BrokerError) and cause.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise CannotWrite(topic, ",".join(producer.config.bootstrap_servers)) from None
        raise
