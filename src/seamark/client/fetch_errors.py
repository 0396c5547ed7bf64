"""What can be wrong with the records that were asked for.

``CorruptRecords`` is raised from poll and leaves the position where they stand; seeking behind the batch goes on
without it. ``RecordsTooLarge`` is the same for a batch that would cost the reader too much. ``RangeGone`` is for exact
ranges, which have no position to reset.
"""

from __future__ import annotations

from seamark.client.errors import ClientError, OffsetOutOfRange
from seamark.errors import DecodeError, OverLimit
from seamark.topic_partition import TopicPartition


class CorruptRecords(ClientError):
    """The batch at ``offset`` is not what was written, or is not in a format that Kafka's brokers store."""

    def __init__(self, partition: TopicPartition, offset: int, reason: str) -> None:
        super().__init__(
            f"the records of {partition} at offset {offset} cannot be read: {reason}. Poll raises this until you seek: "
            f"seek to {offset + 1} or later to go on without them"
        )
        self.partition = partition
        self.offset = offset
        self.reason = reason


class RecordsTooLarge(CorruptRecords):
    """The batch at ``offset`` is over ``setting``, which bounds what a batch may cost its reader."""

    def __init__(self, partition: TopicPartition, offset: int, reason: str, setting: str) -> None:
        super().__init__(partition, offset, f"{reason} ({setting}, which can be raised if you trust who wrote them)")
        self.setting = setting


def unreadable(partition: TopicPartition, offset: int, error: DecodeError) -> CorruptRecords:
    """What to tell of a batch that cannot be read."""
    if isinstance(error, OverLimit) and error.field.endswith("header_count"):
        return RecordsTooLarge(partition, offset, error.reason, "record.max.headers")
    if isinstance(error, OverLimit) and error.field == "records":
        return RecordsTooLarge(partition, offset, error.reason, "decoded.batch.max.bytes")
    return CorruptRecords(partition, offset, str(error))


class RangeGone(OffsetOutOfRange):
    """An exact range was asked for, and the partition does not hold this offset of it (any more, or yet)."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__({partition: offset})
        self.args = (f"{partition} does not hold offset {offset}: it was deleted, or was never written",)
