"""Offsets by time and by leader epoch: ListOffsets and OffsetForLeaderEpoch, one request per leader.

Both tell the broker which leader epoch we believe in, so that one that lags behind, or is ahead of us, says so in place
of answering for another history (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from seamark.client.cluster_view import ClusterView
from seamark.client.core.assignment_state import NO_EPOCH, Position
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from seamark.wire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
)

# A consumer, as opposed to a replica that follows the leader.
_CONSUMER = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class FoundOffset(NamedTuple):
    """One partition of a ListOffsets answer; ``offset`` is -1 where there is no record at or after the time."""

    error: ErrorCode
    offset: int
    timestamp_ms: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """One partition of an OffsetForLeaderEpoch answer: where the epoch ended, -1 if the leader never knew it."""

    error: ErrorCode
    leader_epoch: int
    end_offset: int


def by_leader(
    partitions: Iterable[TopicPartition], view: ClusterView
) -> tuple[dict[int, list[TopicPartition]], list[TopicPartition]]:
    """Partitions grouped by the node that leads them, and those whose leader is not known."""
    led: dict[int, list[TopicPartition]] = {}
    leaderless = []
    for partition in partitions:
        leader = view.leader(partition)
        if leader is None:
            leaderless.append(partition)
        else:
            led.setdefault(leader.id, []).append(partition)
    return led, leaderless


def list_offsets_request(
    timestamps: Mapping[TopicPartition, int], isolation_level: int, timeout_ms: int, view: ClusterView | None = None
) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsRequestPartition]] = {}
    for partition, timestamp in timestamps.items():
        topics.setdefault(partition.topic, []).append(
            ListOffsetsRequestPartition(
                partition_index=partition.partition,
                current_leader_epoch=NO_EPOCH if view is None else view.leader_epoch(partition),
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=isolation_level,
        topics=[ListOffsetsRequestTopic(name=name, partitions=entries) for name, entries in topics.items()],
        timeout_ms=timeout_ms,
    )


def listed_offsets(response: ListOffsetsResponse) -> dict[TopicPartition, FoundOffset]:
    return {
        TopicPartition(topic.name, each.partition_index): FoundOffset(
            error_code(each.error_code), each.offset, each.timestamp, each.leader_epoch
        )
        for topic in response.topics
        for each in topic.partitions
    }


def epoch_request(positions: Mapping[TopicPartition, Position], view: ClusterView) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderEpochRequestPartition]] = {}
    for partition, position in positions.items():
        topics.setdefault(partition.topic, []).append(
            OffsetForLeaderEpochRequestPartition(
                partition=partition.partition,
                current_leader_epoch=view.leader_epoch(partition),
                leader_epoch=position.leader_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[OffsetForLeaderEpochRequestTopic(topic=name, partitions=entries) for name, entries in topics.items()],
    )


def epoch_ends(response: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEnd]:
    return {
        TopicPartition(topic.topic, each.partition): EpochEnd(
            error_code(each.error_code), each.leader_epoch, each.end_offset
        )
        for topic in response.topics
        for each in topic.partitions
    }
