"""Why a record was not delivered, or not even accepted, where no broker said so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seamark.client.errors import ClientError
from seamark.counts import counted
from seamark.topic_partition import TopicPartition

# So many causes are told in one sentence.
_TOLD_CAUSES = 3


@dataclass(frozen=True, slots=True)
class FailedTo:
    """So many records for a topic were not delivered for one cause; ``error`` is the first of them."""

    topic: str
    count: int
    error: ClientError


class DeliveryFailed(ClientError):
    """Records were refused or given up, and nobody has looked at their deliveries.

    ``count`` of the ``sent`` records that were settled since the last flush; ``failures`` has them by topic and cause,
    the first of which is also the ``__cause__``.
    """

    def __init__(self, failures: Sequence[FailedTo], sent: int) -> None:
        self.failures = tuple(failures)
        self.count = sum(each.count for each in failures)
        self.sent = max(sent, self.count)
        causes = [f"{each.count} to topic {each.topic!r}: {each.error}" for each in self.failures]
        if len(causes) > _TOLD_CAUSES:
            causes[_TOLD_CAUSES:] = [f"and {len(causes) - _TOLD_CAUSES} more topics or causes"]
        what = "record was" if self.sent == 1 else "records were"
        super().__init__(f"{self.count} of {self.sent} {what} not delivered: {'; '.join(causes)}")
        first = self.failures[0].error
        self.is_retriable = all(each.error.is_retriable for each in self.failures)
        self.__cause__ = first


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
