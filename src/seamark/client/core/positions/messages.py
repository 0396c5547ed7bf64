"""Offsets by time and by leader epoch, asked of each leader, and what answers mean for each partition (F14, F22-F25).

ListOffsets and OffsetForLeaderEpoch tell the broker which leader epoch we believe in, so that one that lags behind, or
is ahead of us, says so in place of answering for another history (KIP-320).

An answer is: found, nothing there, try again, or raise. One rule per API; the positions of a consumer and the blocking
queries of its caller read answers by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from seamark.client.cluster_view import ClusterView
from seamark.client.core.assignment_state import NO_EPOCH, Position
from seamark.client.errors import ClientError, broker_error
from seamark.client.group_offsets import fetched_offsets
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchResponse
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

_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_WAIT = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNSTABLE_OFFSET_COMMIT})


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


def partitions_by_leader(
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
        TopicPartition(topic.name, partition.partition_index): FoundOffset(
            error_code(partition.error_code), partition.offset, partition.timestamp, partition.leader_epoch
        )
        for topic in response.topics
        for partition in topic.partitions
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
        TopicPartition(topic.topic, partition.partition): EpochEnd(
            error_code(partition.error_code), partition.leader_epoch, partition.end_offset
        )
        for topic in response.topics
        for partition in topic.partitions
    }


class OffsetOutcome(Enum):
    FOUND = "found"
    NOTHING = "nothing"
    # At the same broker, after a backoff (F14, F22).
    RETRY = "retry"
    # At another coordinator.
    REDISCOVER = "rediscover"
    # At another leader, perhaps.
    RETRY_AND_REFRESH = "retry and refresh"
    RAISE = "raise"


class Answer(NamedTuple):
    outcome: OffsetOutcome
    position: Position | None = None
    error: ClientError | None = None
    metadata: str = ""
    timestamp_ms: int = -1


def committed_answers(
    group_id: str, response: OffsetFetchResponse, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Answer]:
    fetched = fetched_offsets(group_id, response)
    group = f"group {group_id!r}"
    if fetched.error is not ErrorCode.NONE:
        answer = _committed_error(fetched.error, group)
        return dict.fromkeys(partitions, answer)
    answers = {}
    for partition in partitions:
        if partition not in fetched.offsets:
            code = fetched.errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            answers[partition] = _committed_error(code, f"{partition}, {group}")
        elif (offset := fetched.offsets[partition]) is None:
            answers[partition] = Answer(OffsetOutcome.NOTHING)
        else:
            position = Position(offset.offset, offset.leader_epoch)
            answers[partition] = Answer(OffsetOutcome.FOUND, position, metadata=offset.metadata)
    return answers


def _committed_error(code: ErrorCode, subject: str) -> Answer:
    error = broker_error(code, "OffsetFetch", subject)
    if code in _MOVED:
        return Answer(OffsetOutcome.REDISCOVER, error=error)
    return Answer(OffsetOutcome.RETRY if code in _WAIT else OffsetOutcome.RAISE, error=error)


def offset_answers(response: ListOffsetsResponse, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Answer]:
    listed = listed_offsets(response)
    answers = {}
    for partition in partitions:
        listed_offset = listed.get(partition)
        code = ErrorCode.UNKNOWN_SERVER_ERROR if listed_offset is None else listed_offset.error
        if listed_offset is None or code is not ErrorCode.NONE:
            answers[partition] = _leader_error(code, "ListOffsets", partition)
        elif listed_offset.offset < 0:
            answers[partition] = Answer(OffsetOutcome.NOTHING)
        else:
            position = Position(listed_offset.offset, listed_offset.leader_epoch)
            answers[partition] = Answer(OffsetOutcome.FOUND, position, timestamp_ms=listed_offset.timestamp_ms)
    return answers


def epoch_answers(
    response: OffsetForLeaderEpochResponse, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Answer]:
    ends = epoch_ends(response)
    answers = {}
    for partition in partitions:
        end = ends.get(partition)
        code = ErrorCode.UNKNOWN_SERVER_ERROR if end is None else end.error
        if end is None or code is not ErrorCode.NONE:
            answers[partition] = _leader_error(code, "OffsetForLeaderEpoch", partition)
        elif end.end_offset < 0 or end.leader_epoch < 0:
            answers[partition] = Answer(OffsetOutcome.NOTHING)
        else:
            answers[partition] = Answer(OffsetOutcome.FOUND, Position(end.end_offset, end.leader_epoch))
    return answers


def _leader_error(code: ErrorCode, api: str, partition: TopicPartition) -> Answer:
    error = broker_error(code, api, f"partition {partition}")
    # A damaged log does not heal, although Kafka counts the code among the retriable ones.
    is_passing = code.is_retriable and code is not ErrorCode.CORRUPT_MESSAGE
    return Answer(OffsetOutcome.RETRY_AND_REFRESH if is_passing else OffsetOutcome.RAISE, error=error)
