"""Fetch requests in the form of the version that a node speaks, and what their answers mean for each partition.

Version 13 and above name topics by id; a request with a topic whose id is not known is capped at 12 (K7). Everything
else about a request is decided by the session (``sessions``) and the configuration (K8).

``OUTCOMES`` maps an error code of one partition to what happens next, by Kafka's own rules; codes that are not in it
are raised to the caller as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from seamark.client.config.config import ConsumerConfig
from seamark.client.core.positions.messages import READ_COMMITTED, READ_UNCOMMITTED
from seamark.client.fetch.sessions import FetchTarget, SessionRequest
from seamark.client.requests import VersionedRequest
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)

LAST_VERSION_WITH_NAMES = 12
_NO_TOPIC_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What a request says about amounts and waiting."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_partition_bytes: int = 1_048_576
    isolation_level: int = READ_UNCOMMITTED
    rack: str = ""

    @classmethod
    def from_config(cls, config: ConsumerConfig) -> FetchLimits:
        return cls(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            max_partition_bytes=config.max_partition_fetch_bytes,
            isolation_level=READ_COMMITTED if config.isolation_level == "read_committed" else READ_UNCOMMITTED,
            rack=config.client_rack,
        )


def version_cap(request: SessionRequest) -> int | None:
    """The newest version that may be used: 12 if any topic lacks an id, else any (K7)."""
    unnamed = (
        any(target.topic_id == _NO_TOPIC_ID for target in request.send.values())
        or any(topic_id == _NO_TOPIC_ID for _, topic_id in request.forget)
        or any(topic_id == _NO_TOPIC_ID for _, topic_id in request.replace)
    )
    return LAST_VERSION_WITH_NAMES if unnamed else None


def fetch_request(request: SessionRequest, limits: FetchLimits, max_bytes: int) -> VersionedRequest:
    """The request for whichever version is negotiated; ``max_bytes`` may be below the configured limit."""

    def make(version: int) -> FetchRequest:
        # Version 12 has no way to replace a topic: it only knows names.
        dropped = (*request.forget, *request.replace) if version > LAST_VERSION_WITH_NAMES else request.forget
        return FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=max(1, min(max_bytes, limits.max_bytes)),
            isolation_level=limits.isolation_level,
            session_id=request.session_id,
            session_epoch=request.epoch,
            topics=_topics(request.send),
            forgotten_topics_data=_forgotten(dropped),
            rack_id=limits.rack,
        )

    return VersionedRequest(FetchRequest, make)


def _topics(targets: Mapping[TopicPartition, FetchTarget]) -> list[FetchRequestTopic]:
    topics: dict[tuple[str, bytes], FetchRequestTopic] = {}
    for (topic, index), target in targets.items():
        entry = topics.get((topic, target.topic_id))
        if entry is None:
            entry = topics[topic, target.topic_id] = FetchRequestTopic(topic=topic, topic_id=target.topic_id)
        entry.partitions.append(
            FetchRequestPartition(
                partition=index,
                current_leader_epoch=target.leader_epoch,
                fetch_offset=target.offset,
                partition_max_bytes=target.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: Iterable[tuple[TopicPartition, bytes]]) -> list[FetchRequestForgottenTopic]:
    topics: dict[tuple[str, bytes], FetchRequestForgottenTopic] = {}
    for (topic, index), topic_id in partitions:
        entry = topics.get((topic, topic_id))
        if entry is None:
            entry = topics[topic, topic_id] = FetchRequestForgottenTopic(topic=topic, topic_id=topic_id)
        entry.partitions.append(index)
    return list(topics.values())


def answered_partitions(
    response: FetchResponse, version: int, asked: Mapping[TopicPartition, FetchTarget]
) -> dict[TopicPartition | None, FetchResponsePartition]:
    """The answer by partition; what stands under a topic id that was not asked for is under None."""
    names: dict[bytes, str] = {}
    if version > LAST_VERSION_WITH_NAMES:
        names = {target.topic_id: partition.topic for partition, target in asked.items()}
    by_partition: dict[TopicPartition | None, FetchResponsePartition] = {}
    for topic in response.responses:
        name = topic.topic if version <= LAST_VERSION_WITH_NAMES else names.get(topic.topic_id)
        for partition in topic.partitions:
            by_partition[None if name is None else TopicPartition(name, partition.partition_index)] = partition
    return by_partition


class FetchOutcome(Enum):
    DATA = "records, possibly none"
    REFRESH = "the leader is out of date: refresh metadata, then retry"
    AGAIN = "temporary: retry after the backoff"
    OUT_OF_RANGE = "the position is out of range"
    RAISE = "report the error to the caller"


OUTCOMES: dict[ErrorCode, FetchOutcome] = {
    ErrorCode.NONE: FetchOutcome.DATA,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: FetchOutcome.REFRESH,
    ErrorCode.REPLICA_NOT_AVAILABLE: FetchOutcome.REFRESH,
    ErrorCode.KAFKA_STORAGE_ERROR: FetchOutcome.REFRESH,
    ErrorCode.FENCED_LEADER_EPOCH: FetchOutcome.REFRESH,
    ErrorCode.OFFSET_NOT_AVAILABLE: FetchOutcome.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: FetchOutcome.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_ID: FetchOutcome.REFRESH,
    ErrorCode.INCONSISTENT_TOPIC_ID: FetchOutcome.REFRESH,
    ErrorCode.LEADER_NOT_AVAILABLE: FetchOutcome.REFRESH,
    # The node has not heard of the leader epoch yet that we know.
    ErrorCode.UNKNOWN_LEADER_EPOCH: FetchOutcome.AGAIN,
    ErrorCode.UNKNOWN_SERVER_ERROR: FetchOutcome.AGAIN,
    ErrorCode.OFFSET_OUT_OF_RANGE: FetchOutcome.OUT_OF_RANGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: FetchOutcome.RAISE,
    ErrorCode.CORRUPT_MESSAGE: FetchOutcome.RAISE,
}


def outcome_of(code: ErrorCode) -> FetchOutcome:
    return OUTCOMES.get(code, FetchOutcome.AGAIN if code.is_retriable else FetchOutcome.RAISE)
