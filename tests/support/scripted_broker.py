"""A broker that answers as a test says, over real sockets, and counts what it is asked.

Without a script it is a broker with one topic ``t`` of two empty partitions that leads and coordinates everything.
``broker.answer("Fetch", function)`` replaces an answer: the function is given the request and gives a message, the
bytes of a whole frame, ``CLOSE`` or ``SILENCE``. ``broker.metadata`` and its siblings are the answers it would give by
itself, to be changed by a script.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from seamark.wire.protocol.apis import all_apis
from seamark.wire.protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from seamark.wire.protocol.frames import decode_request, encode_response
from seamark.wire.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from seamark.wire.protocol.messages.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorResponse, FindCoordinatorResponseCoordinator
from seamark.wire.protocol.messages.heartbeat import HeartbeatResponse
from seamark.wire.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from seamark.wire.protocol.messages.leave_group import LeaveGroupResponse
from seamark.wire.protocol.messages.list_offsets import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from seamark.wire.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from seamark.wire.protocol.messages.sync_group import SyncGroupResponse
from seamark.wire.schema.schema import Message

CLOSE, SILENCE = object(), object()
TOPIC = "t"
TOPIC_ID = b"scripted topic 1"
MEMBER = "member"

Answer = Callable[[Any], object]


class ScriptedBroker:
    def __init__(self, partitions: int = 2) -> None:
        self.partitions = partitions
        # What is stored, as a Fetch answer carries it, by partition; and where that ends.
        self.logs: dict[int, bytes] = {}
        self.ends: dict[int, int] = {}
        self.requests: Counter[str] = Counter()
        self.connections = 0
        self.port = 0
        self._scripts: dict[str, Answer] = {}
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def answer(self, name: str, script: Answer) -> None:
        """From now on requests of this API are answered by the script."""
        self._scripts[name] = script

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()

        async def listen() -> asyncio.Server:
            return await asyncio.start_server(self._serve, "127.0.0.1", 0)

        self._server = asyncio.run_coroutine_threadsafe(listen(), self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def end() -> None:
            self._server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._answer_all(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = int.from_bytes(await reader.readexactly(4))
            header, request = decode_request(await reader.readexactly(size))
            name = type(request).__name__.removesuffix("Request")
            self.requests[name] += 1
            script = self._scripts.get(name) or getattr(self, _snake(name))
            made = script(request)
            if name == "Fetch" and made is None:
                # Nothing to send: an honest broker waits for it.
                await asyncio.sleep(request.max_wait_ms / 1000)
                made = FetchResponse()
            if made is CLOSE:
                return
            if isinstance(made, Message):
                made = encode_response(made, header.request_api_version, header.correlation_id)
            if isinstance(made, bytes):
                writer.write(made)
                await writer.drain()

    # -- what it answers by itself

    def api_versions(self, _: Any) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersionsResponseApi(api_key=key, min_version=each.versions.first, max_version=each.versions.last)
                for key, each in all_apis().items()
            ]
        )

    def metadata(self, _: Any = None) -> MetadataResponse:
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self.port)],
            cluster_id="scripted",
            controller_id=0,
            topics=[
                MetadataResponseTopic(
                    name=TOPIC,
                    topic_id=TOPIC_ID,
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=index, leader_id=0, leader_epoch=0, replica_nodes=[0], isr_nodes=[0]
                        )
                        for index in range(self.partitions)
                    ],
                )
            ],
        )

    def find_coordinator(self, request: Any) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            coordinators=[
                FindCoordinatorResponseCoordinator(key=key, node_id=0, host="127.0.0.1", port=self.port)
                for key in request.coordinator_keys
            ]
        )

    def join_group(self, request: Any) -> JoinGroupResponse:
        first = request.protocols[0]
        return JoinGroupResponse(
            generation_id=1,
            protocol_type="consumer",
            protocol_name=first.name,
            leader=MEMBER,
            member_id=MEMBER,
            members=[JoinGroupResponseMember(member_id=MEMBER, metadata=first.metadata)],
        )

    def sync_group(self, request: Any) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=request.assignments[0].assignment if request.assignments else assigned(TOPIC, 0),
        )

    def heartbeat(self, _: Any) -> HeartbeatResponse:
        return HeartbeatResponse()

    def leave_group(self, _: Any) -> LeaveGroupResponse:
        return LeaveGroupResponse()

    def offset_fetch(self, request: Any, offset: int = -1) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=[
                        OffsetFetchResponseTopic(
                            name=topic.name,
                            partitions=[
                                OffsetFetchResponsePartition(partition_index=index, committed_offset=offset)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in group.topics or []
                    ],
                )
                for group in request.groups
            ]
        )

    def offset_commit(self, request: Any, error_code: int = 0) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error_code)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def list_offsets(self, request: Any) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponseTopic(
                    name=topic.name,
                    partitions=[
                        ListOffsetsResponsePartition(
                            partition_index=each.partition_index,
                            offset=0 if each.timestamp == -2 else self.ends.get(each.partition_index, 0),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def fetch(self, request: Any) -> FetchResponse | None:
        """Whole logs, as long as their end is not reached: a client skips what it has."""
        found = [
            self.fetched(each.partition, self.logs[each.partition])
            for topic in request.topics
            for each in topic.partitions
            if each.fetch_offset < self.ends.get(each.partition, 0)
        ]
        return self.fetch_response(*found) if found else None

    def fetched(self, partition: int, records: bytes | None, **fields: Any) -> FetchResponsePartition:
        known = {"high_watermark": self.ends.get(partition, 0), **fields}
        return FetchResponsePartition(partition_index=partition, records=records, **known)

    def fetch_response(self, *partitions: FetchResponsePartition, **fields: Any) -> FetchResponse:
        topic = FetchResponseTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=list(partitions))
        return FetchResponse(responses=[topic], **fields)


def assigned(topic: str, *partitions: int) -> bytes:
    return encode_assignment(
        Assignment(assigned_partitions=[TopicPartitions(topic=topic, partitions=list(partitions))])
    )


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
