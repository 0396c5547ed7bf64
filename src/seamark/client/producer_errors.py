"""Why a record was not delivered, or not even accepted, where no broker said so."""

from __future__ import annotations

from seamark.client.errors import ClientError
from seamark.counts import counted
from seamark.topic_partition import TopicPartition


class DeliveryTimedOut(ClientError):
    """delivery.timeout.ms passed; the record may or may not have been stored.

    ``last_error`` is what stood in the way.
    """

    is_retriable = True

    def __init__(self, partition: TopicPartition, count: int, seconds: float, last_error: Exception | None) -> None:
        because = "" if last_error is None else f", last error: {last_error}"
        super().__init__(f"{counted(count, 'record')} for {partition} not acknowledged within {seconds:g} s{because}")
        self.partition = partition
        self.seconds = seconds
        self.last_error = last_error


class BufferFull(ClientError):
    """buffer.memory was taken for as long as max.block.ms: records come faster than the brokers take them."""

    is_retriable = True

    def __init__(self, wanted: int, limit: int, seconds: float) -> None:
        super().__init__(f"no room for {wanted} bytes within {seconds:g} s: buffer.memory={limit} is full")


class RecordTooLarge(ClientError):
    """The record alone is larger than max.request.size or buffer.memory allows."""

    def __init__(self, topic: str, size: int, key: str, limit: int) -> None:
        super().__init__(f"a record of {size} bytes for topic {topic!r} is larger than {key}={limit}")
