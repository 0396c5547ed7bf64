"""The one place where OffsetCommit and OffsetFetch are written and their answers read (A1 to A5, A18, A32).

For members, for clients outside the group, and for whoever only looks: one entry per topic.

Partitions keep the order they were given in, topics that of their first partition. A missing leader epoch is -1,
missing metadata the empty text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from seamark.client.records import Offset
from seamark.client.requests import VersionedRequest
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
    OffsetFetchResponseTopic,
)

# The first versions of OffsetFetch that can insist on stable offsets, and that ask for many groups.
STABLE_OFFSETS = 7
MANY_GROUPS = 8
# A coordinator stores one commit as one batch, which must fit into a message of its offsets topic (1 MB by default).
_COMMIT_BYTES = 400_000
_BYTES_BESIDE_TEXTS = 100


class GroupIdentity(NamedTuple):
    """What a commit is made under; a client that is no member of the group has none and sends NO_IDENTITY."""

    generation_id: int
    member_id: str
    instance_id: str | None


NO_IDENTITY = GroupIdentity(-1, "", None)


def offset_commit_request(
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
        (TopicPartition(topic.name, partition.partition_index), error_code(partition.error_code))
        for topic in response.topics
        for partition in topic.partitions
    ]


def offset_fetch_request(
    groups: Mapping[str, Iterable[TopicPartition] | None], *, is_stable: bool = True
) -> VersionedRequest:
    """What groups have committed, of these partitions or (None) of all; before version 8, of one group only.

    ``is_stable`` asks for what no open transaction can still change, where brokers can tell (from version 7 on).
    """
    topics = {group_id: None if some is None else _by_topic(some) for group_id, some in groups.items()}

    def make(version: int) -> OffsetFetchRequest:
        require_stable = is_stable and version >= STABLE_OFFSETS
        if version >= MANY_GROUPS:
            asked = [OffsetFetchRequestGroup(group_id=group_id, topics=some) for group_id, some in topics.items()]
            return OffsetFetchRequest(groups=asked, require_stable=require_stable)
        ((group_id, some),) = topics.items()
        return OffsetFetchRequest(group_id=group_id, topics=some, require_stable=require_stable)

    return VersionedRequest(OffsetFetchRequest, make)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[OffsetFetchRequestTopic]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]


class FetchedOffsets(NamedTuple):
    """What OffsetFetch answered for one group: its own error, and per partition what is committed or an error."""

    error: ErrorCode
    # None where nothing is committed.
    offsets: dict[TopicPartition, Offset | None]
    errors: dict[TopicPartition, ErrorCode]


def fetched_offsets(group_id: str, response: OffsetFetchResponse) -> FetchedOffsets:
    """The answer for one group, in either form; if it leaves the group out, without offsets and errors."""
    group = next((answered for answered in response.groups if answered.group_id == group_id), response)
    return _fetched(group.error_code, group.topics)


def fetched_by_group(response: OffsetFetchResponse) -> dict[str, FetchedOffsets]:
    """The answers of the form for many groups."""
    return {group.group_id: _fetched(group.error_code, group.topics) for group in response.groups}


def _fetched(code: int, topics: Iterable[OffsetFetchResponseTopic]) -> FetchedOffsets:
    offsets: dict[TopicPartition, Offset | None] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code:
                errors[partition] = error_code(answer.error_code)
            elif answer.committed_offset < 0:
                # F25: -1 without an error.
                offsets[partition] = None
            else:
                epoch = max(answer.committed_leader_epoch, -1)
                offsets[partition] = Offset(answer.committed_offset, answer.metadata or "", epoch)
    return FetchedOffsets(error_code(code), offsets, errors)
