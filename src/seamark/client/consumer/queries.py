"""Questions a consumer's caller waits for: committed offsets, and offsets by time. They change nothing.

Each is retried until its deadline where the answer may become another; the error that remains is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from seamark.client.config.config import ConsumerConfig
from seamark.client.core.positions.messages import (
    Answer,
    OffsetOutcome,
    committed_answers,
    list_offsets_request,
    offset_answers,
)
from seamark.client.errors import ClientError
from seamark.client.group_offsets import offset_fetch_request
from seamark.client.net.client import NetworkClient
from seamark.client.net.fanout import by_leader, retry_each
from seamark.client.records import Offset
from seamark.client.timing import Deadline
from seamark.client.zookeeper.dual import OffsetStorage
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchResponse


async def committed(
    network: NetworkClient,
    config: ConsumerConfig,
    partitions: Sequence[TopicPartition],
    deadline: Deadline,
    storage: OffsetStorage | None = None,
) -> dict[TopicPartition, Offset | None]:
    """What the group has committed; None where it has committed nothing (F22 to F25)."""
    if not partitions:
        return {}
    group_id = config.group_id or ""
    request = offset_fetch_request({group_id: partitions})
    send = partial(network.send_to_coordinator, group_id, deadline=deadline)

    async def attempt(_: Sequence[str]) -> dict[str, dict[TopicPartition, Answer] | ClientError]:
        response = await (send(request, OffsetFetchResponse) if storage is None else storage.fetch(request, send))
        answers = committed_answers(group_id, response, partitions)
        failed = next((each for each in answers.values() if each.error is not None), None)
        if failed is None or failed.error is None or failed.outcome is OffsetOutcome.RAISE:
            return {group_id: answers}
        if failed.outcome is OffsetOutcome.REDISCOVER:
            network.coordinators.moved(group_id)
        return {group_id: failed.error}

    operation = f"reading committed offsets of group {group_id!r}"
    found = await retry_each([group_id], attempt, operation=operation, config=config, deadline=deadline)
    answers = found.raise_if_failed()[group_id]
    for answer in answers.values():
        if answer.error is not None:
            raise answer.error
    return {partition: _offset(answer) for partition, answer in answers.items()}


def _offset(answer: Answer) -> Offset | None:
    if answer.position is None:
        return None
    return Offset(answer.position.offset, answer.metadata, answer.position.leader_epoch)


async def offsets_by_time(
    network: NetworkClient,
    config: ConsumerConfig,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: int,
    deadline: Deadline,
) -> dict[TopicPartition, Answer]:
    """Offsets for timestamps or their special values; an answer without position where no record is that young."""
    if not timestamps:
        return {}

    def make(some: Sequence[TopicPartition]) -> ListOffsetsRequest:
        wanted = {partition: timestamps[partition] for partition in some}
        return list_offsets_request(wanted, isolation_level, config.request_timeout_ms)

    def read(response: ListOffsetsResponse) -> dict[TopicPartition, Answer | ClientError]:
        named = [
            TopicPartition(topic.name, each.partition_index) for topic in response.topics for each in topic.partitions
        ]
        return {
            partition: answer if answer.error is None else answer.error
            for partition, answer in offset_answers(response, named).items()
        }

    async def attempt(some: Sequence[TopicPartition]) -> dict[TopicPartition, Answer | ClientError]:
        return await by_leader(network, some, make, ListOffsetsResponse, read, deadline)

    found = await retry_each(timestamps, attempt, operation="listing offsets", config=config, deadline=deadline)
    found.raise_if_failed()
    return {partition: found[partition] for partition in timestamps}
