"""Where a consumer's offsets are kept while a group moves between ZooKeeper and Kafka (G6 to G8).

``offsets.storage`` names the store, ``dual.commit.enabled`` keeps the other one level with it:

    kafka, not dual       Kafka alone: this module is not used at all
    zookeeper, not dual   ZooKeeper alone; the coordinator is asked first whether the member still belongs to the group
    dual, either storage  a commit goes to Kafka, which fences old members, and when it is stored there to ZooKeeper; a
                          reader takes the larger of the two offsets, with Kafka's metadata

So a group may be restarted one member at a time, there and back: whatever a member with old settings reads was written
by the members with new ones. Commits reach ZooKeeper in the order in which Kafka took them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from seamark.client.config.config import ConsumerConfig
from seamark.client.group_offsets import MANY_GROUPS, commit_codes
from seamark.client.net.client import NetworkClient
from seamark.client.requests import Request, VersionedRequest
from seamark.client.zookeeper.store import OffsetStorageUnavailable, OldOffsets, old_offsets
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from seamark.wire.schema.schema import Message

KAFKA = "kafka"
ZOOKEEPER = "zookeeper"

# Sends a request to the group's coordinator.
Send = Callable[[Request, type[Any]], Awaitable[Any]]

_NO_EPOCH = -1
_NOTHING = -1


class OffsetStorage:
    """Owned by the I/O loop; ``exchange`` stands in for sending a commit or a fetch of offsets to the coordinator."""

    def __init__(self, config: ConsumerConfig, old: OldOffsets) -> None:
        self._old = old
        self._is_dual = config.dual_commit_enabled
        self._retries = config.offsets_commit_max_retries
        self._backoff_s = config.offsets_channel_backoff_ms / 1000
        # Kafka answers commits in order; whoever waits here first, writes first.
        self._writing = asyncio.Lock()

    @staticmethod
    def concerns(request: Request) -> bool:
        return isinstance(request, OffsetCommitRequest) or (
            isinstance(request, VersionedRequest) and request.request is OffsetFetchRequest
        )

    async def exchange(self, request: Request, send: Send) -> Message:
        if isinstance(request, OffsetCommitRequest):
            return await self._commit(request, send)
        assert isinstance(request, VersionedRequest)
        return await self.fetch(request, send)

    # -- committing

    async def _commit(self, request: OffsetCommitRequest, send: Send) -> OffsetCommitResponse:
        offsets = {
            TopicPartition(topic.name, partition.partition_index): partition.committed_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        if self._is_dual:
            response: OffsetCommitResponse = await send(request, OffsetCommitResponse)
            stored = {partition for partition, code in commit_codes(response) if code is ErrorCode.NONE}
            offsets = {partition: offset for partition, offset in offsets.items() if partition in stored}
        else:
            code = await self._generation_code(request, send)
            response = _all_alike(request, code)
            if code is not ErrorCode.NONE:
                return response
        if offsets:
            await self._write(request.group_id, offsets)
        return response

    async def _generation_code(self, request: OffsetCommitRequest, send: Send) -> ErrorCode:
        """Is the member still one of this generation? ZooKeeper would take a commit from anybody."""
        if request.generation_id_or_member_epoch < 0:
            # Partitions assigned by hand: there is no group to have fallen out of.
            return ErrorCode.NONE
        beat = HeartbeatRequest(
            group_id=request.group_id,
            generation_id=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
        )
        response: HeartbeatResponse = await send(beat, HeartbeatResponse)
        code = error_code(response.error_code)
        # A rebalance that has begun still lets everybody commit what was done.
        return ErrorCode.NONE if code is ErrorCode.REBALANCE_IN_PROGRESS else code

    async def _write(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        async with self._writing:
            for left in range(self._retries, -1, -1):
                try:
                    await self._old.write(group_id, offsets)
                except OffsetStorageUnavailable:
                    if not left:
                        raise
                    await asyncio.sleep(self._backoff_s)
                else:
                    return

    # -- reading

    async def fetch(self, request: VersionedRequest, send: Send) -> OffsetFetchResponse:
        # The form for one group, to see what is asked for.
        asked = request.make(MANY_GROUPS - 1)
        assert isinstance(asked, OffsetFetchRequest)
        partitions = [
            TopicPartition(topic.name, index) for topic in asked.topics or () for index in topic.partition_indexes
        ]
        if not self._is_dual:
            return _response(asked, await self._old.read(asked.group_id, partitions))
        response, old = await asyncio.gather(
            send(request, OffsetFetchResponse), self._old.read(asked.group_id, partitions)
        )
        for topics in (response.topics, *(group.topics for group in response.groups)):
            for topic in topics:
                for partition in topic.partitions:
                    _take_larger(partition, old.get(TopicPartition(topic.name, partition.partition_index), _NOTHING))
        answer: OffsetFetchResponse = response
        return answer

    def close(self) -> None:
        self._old.close()


def offset_storage(config: ConsumerConfig, network: NetworkClient) -> OffsetStorage | None:
    """None where Kafka alone keeps the offsets."""
    if config.offsets_storage == KAFKA and not config.dual_commit_enabled:
        return None
    return OffsetStorage(config, old_offsets(config, network))


def _take_larger(answer: OffsetFetchResponsePartition, old: int) -> None:
    """G8: the larger offset with Kafka's metadata; the epoch belongs to Kafka's offset alone."""
    if not answer.error_code and old > answer.committed_offset:
        answer.committed_offset = old
        answer.committed_leader_epoch = _NO_EPOCH


def _all_alike(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _response(asked: OffsetFetchRequest, stored: dict[TopicPartition, int]) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=stored.get(TopicPartition(topic.name, index), _NOTHING),
                        metadata="",
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics or ()
        ]
    )
