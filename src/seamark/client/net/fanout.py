"""Questions about many partitions: grouped by topic as Kafka's messages want them, and sent once per leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from seamark.client.deadline import Deadline
from seamark.client.errors import BrokerError, ClientError, broker_error
from seamark.client.net.client import NetworkClient
from seamark.client.requests import Request
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.schema.schema import Message

M = TypeVar("M", bound=Message)
V = TypeVar("V")

_LEADERSHIP = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Each topic once, with the indexes asked for (A2).

    >>> by_topic([TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("a", 0)])
    {'a': [1, 0], 'b': [0]}
    """
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


async def by_leader(
    network: NetworkClient,
    partitions: Sequence[TopicPartition],
    make: Callable[[Sequence[TopicPartition]], Request],
    response: type[M],
    read: Callable[[M], dict[TopicPartition, V | ClientError]],
    deadline: Deadline,
    *,
    min_version: int = 0,
) -> dict[TopicPartition, V | ClientError]:
    """One request per leader, all at once; what shows old knowledge of leaders makes the metadata stale."""
    view = await network.ensure_topics({partition.topic for partition in partitions}, deadline)
    if network.metadata.is_stale:
        view = await network.refresh_metadata(deadline)
    answers: dict[TopicPartition, V | ClientError] = {}
    per_node: dict[int, list[TopicPartition]] = {}
    network.metadata.drop_topics({p.topic for p in partitions if view.topics[p.topic].error})
    for partition in partitions:
        leader = view.leader(partition)
        topic = view.topics[partition.topic]
        if leader is not None and not topic.error:
            per_node.setdefault(leader.id, []).append(partition)
            continue
        missing = partition.partition not in topic.partitions
        code = topic.error or (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if missing else ErrorCode.LEADER_NOT_AVAILABLE)
        answers[partition] = broker_error(code, "Metadata", f"partition {partition}")

    async def ask(node_id: int, some: list[TopicPartition]) -> dict[TopicPartition, V | ClientError]:
        try:
            return read(await network.send(node_id, make(some), response, deadline=deadline, min_version=min_version))
        except ClientError as error:
            network.metadata.mark_stale()
            return dict.fromkeys(some, error)

    for found in await asyncio.gather(*(ask(node_id, some) for node_id, some in per_node.items())):
        answers.update(found)
    if any(isinstance(answer, BrokerError) and answer.code in _LEADERSHIP for answer in answers.values()):
        network.metadata.mark_stale()
    return answers
