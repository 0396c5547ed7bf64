"""What ``offsets_for_times`` answers per partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from seamark.client.core.positions.messages import Answer
from seamark.topic_partition import TopicPartition


class OffsetAndTime(NamedTuple):
    """The first record at or after the time asked for."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


def offsets_and_times(answers: Mapping[TopicPartition, Answer]) -> dict[TopicPartition, OffsetAndTime | None]:
    """None where no record is that young."""
    return {
        partition: None
        if answer.position is None
        else OffsetAndTime(answer.position.offset, answer.timestamp_ms, answer.position.leader_epoch)
        for partition, answer in answers.items()
    }
