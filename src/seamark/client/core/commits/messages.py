"""The bytes of commits: offsets to OffsetCommit, OffsetFetch and its answer, one entry per topic (A1 to A5, A18, A32).

Partitions keep the order they were given in, topics that of their first partition. A missing leader epoch is -1,
missing metadata the empty text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from seamark.client.core.membership.context import GroupIdentity
from seamark.client.records import Offset
from seamark.client.requests import ByVersion
from seamark.portions import portions
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

# The first versions of OffsetFetch that can insist on stable offsets, and that ask for many groups.
STABLE_OFFSETS = 7
MANY_GROUPS = 8
# A coordinator stores one commit as one batch, which must fit into a message of its offsets topic (1 MB by default).
_COMMIT_BYTES = 400_000
_BYTES_BESIDE_TEXTS = 100


def commit_request(
    group_id: str, identity: GroupIdentity, offsets: Mapping[TopicPartition, Offset]
) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, offset in offsets.items():
        topics.setdefault(partition.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=entries) for name, entries in topics.items()],
    )


def commit_portions(group_id: str, offsets: Mapping[TopicPartition, Offset]) -> Iterator[dict[TopicPartition, Offset]]:
    """Offsets in portions that a coordinator can store at once."""

    def size(committed: tuple[TopicPartition, Offset]) -> int:
        partition, offset = committed
        # Text is at most four bytes per character.
        return _BYTES_BESIDE_TEXTS + 4 * (len(group_id) + len(partition.topic) + len(offset.metadata))

    return map(dict, portions(offsets.items(), _COMMIT_BYTES, size))


def commit_codes(response: OffsetCommitResponse) -> list[tuple[TopicPartition, ErrorCode]]:
    """Per partition, in the order of the answer: the first failure decides what becomes of the commit."""
    return [
        (TopicPartition(topic.name, each.partition_index), error_code(each.error_code))
        for topic in response.topics
        for each in topic.partitions
    ]


def fetch_request(group_id: str, partitions: Iterable[TopicPartition]) -> ByVersion:
    """Committed offsets of these partitions; only what no open transaction can still change, where brokers can tell."""
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    entries = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]

    def make(version: int) -> OffsetFetchRequest:
        is_stable = version >= STABLE_OFFSETS
        if version >= MANY_GROUPS:
            group = OffsetFetchRequestGroup(group_id=group_id, topics=entries)
            return OffsetFetchRequest(groups=[group], require_stable=is_stable)
        return OffsetFetchRequest(group_id=group_id, topics=entries, require_stable=is_stable)

    return ByVersion(OffsetFetchRequest, make)


class FetchedOffsets(NamedTuple):
    """What OffsetFetch answered for one group."""

    error: ErrorCode
    offsets: dict[TopicPartition, Offset | None]
    codes: list[tuple[TopicPartition, ErrorCode]]


def fetched_offsets(group_id: str, response: OffsetFetchResponse) -> FetchedOffsets:
    """Both forms of the answer read alike; offset -1 without an error means that nothing is committed (F25)."""
    group = next((each for each in response.groups if each.group_id == group_id), None)
    code = error_code(response.error_code if group is None else group.error_code)
    offsets: dict[TopicPartition, Offset | None] = {}
    codes: list[tuple[TopicPartition, ErrorCode]] = []
    for topic in response.topics if group is None else group.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            codes.append((partition, error_code(each.error_code)))
            if each.error_code == 0:
                is_there = each.committed_offset >= 0
                offsets[partition] = (
                    Offset(each.committed_offset, each.metadata or "", max(each.committed_leader_epoch, -1))
                    if is_there
                    else None
                )
    return FetchedOffsets(code, offsets, codes)
