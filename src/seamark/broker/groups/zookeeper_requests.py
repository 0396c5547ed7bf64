"""The rules of OffsetCommit and OffsetFetch version 0, before and behind ZooKeeper (G3, G4, G9).

As Kafka did: the topic and partition must exist, the metadata must not be too long and is then forgotten, since
ZooKeeper keeps the number alone. A partition for which nothing is stored is answered UNKNOWN_TOPIC_OR_PARTITION with
offset -1; later versions answer it without an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seamark.coordinator.replies import CommitReply, FetchedOffset, FetchReply
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from seamark.zookeeper.nodes import why_not_a_node

if TYPE_CHECKING:
    from seamark.broker.node import Node

# The version that is kept in ZooKeeper; every later one is the coordinator's.
IN_ZOOKEEPER = 0

_NONE = ErrorCode.NONE
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def commit(
    node: Node, group: str, topics: list[OffsetCommitRequestTopic], answer: Callable[[CommitReply], None]
) -> None:
    """Store what can be stored and answer for all, in the order of the request."""
    asked = [(TopicPartition(topic.name, each.partition_index), each) for topic in topics for each in topic.partitions]
    codes = {partition: _why_not(node, group, partition, each) for partition, each in asked}

    def done(stored: dict[TopicPartition, ErrorCode]) -> None:
        codes.update(stored)
        reply = CommitReply()
        reply.topics = [
            (
                topic.name,
                [(each.partition_index, codes[TopicPartition(topic.name, each.partition_index)])
                 for each in topic.partitions],
            )
            for topic in topics
            if topic.partitions
        ]  # fmt: skip
        answer(reply)

    wanted = {partition: each.committed_offset for partition, each in asked if codes[partition] is _NONE}
    if wanted:
        assert node.server.zookeeper_offsets is not None
        node.server.zookeeper_offsets.commit(group, wanted, done)
    else:
        done({})


def _why_not(node: Node, group: str, partition: TopicPartition, asked: OffsetCommitRequestPartition) -> ErrorCode:
    if node.cluster.partition(*partition) is None:
        return _UNKNOWN
    if why_not_a_node(group) is not None:
        return ErrorCode.INVALID_GROUP_ID
    if len((asked.committed_metadata or "").encode()) > node.settings.coordinator.metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.OFFSET_OUT_OF_RANGE if asked.committed_offset < 0 else _NONE


def fetch(node: Node, group: str, topics: list[tuple[str, list[int]]], answer: Callable[[FetchReply], None]) -> None:
    """Read what is stored of these partitions."""
    wanted = [
        TopicPartition(name, each)
        for name, partitions in topics
        for each in partitions
        if node.cluster.partition(name, each) is not None
    ]

    def done(found: dict[TopicPartition, int | ErrorCode]) -> None:
        reply = FetchReply(group)
        reply.topics = [
            (name, [_fetched(each, found.get(TopicPartition(name, each))) for each in partitions])
            for name, partitions in topics
        ]
        answer(reply)

    if wanted:
        assert node.server.zookeeper_offsets is not None
        node.server.zookeeper_offsets.fetch(group, wanted, done)
    else:
        done({})


def _fetched(partition: int, found: int | ErrorCode | None) -> FetchedOffset:
    if found is None:
        return FetchedOffset(partition, error=_UNKNOWN)
    if isinstance(found, ErrorCode):
        return FetchedOffset(partition, error=found)
    return FetchedOffset(partition, found)
