"""What a node of the simulated cluster answers: who leads, who coordinates, which offsets there are.

A node reads a frame, answers what needs no coordinator by itself, and hands the rest to the one coordinator process
behind all nodes, if it is the home of the group. ``homes`` are the nodes of the offsets partitions; a group whose home
is another node is refused with NOT_COORDINATOR, as a broker refuses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seamark.coordinator.commands import CommitOffsets
from seamark.coordinator.replies import CommitReply, Reply
from seamark.simulation.broker.broker import SimulatedBroker
from seamark.simulation.world.connections import Request
from seamark.simulation.world.deliveries import Deliveries
from seamark.simulation.world.group_messages import READERS, refusal
from seamark.simulation.world.topic_logs import PartitionRecords, TopicLogs
from seamark.simulation.world.wire_network import WireNetwork, WireRequest
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import decode_request
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, ApiVersionsResponseApi
from seamark.wire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from seamark.wire.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from seamark.wire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from seamark.wire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from seamark.wire.schema.schema import Message

PORT = 9092
_EARLIEST = -2
# The last versions that a broker of release 2.4 speaks, of the requests that a consumer sends.
RELEASE_2_4 = {2: 5, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 18: 3, 23: 3}
_ASKED: tuple[type[Message], ...] = (
    ListOffsetsRequest,
    MetadataRequest,
    FindCoordinatorRequest,
    OffsetForLeaderEpochRequest,
    ApiVersionsRequest,
    *READERS,
)


def host_of(node: int) -> str:
    return f"node-{node}"


class NodeFront:
    """All nodes of one cluster; which of them was asked is told by the connection."""

    def __init__(
        self,
        broker: SimulatedBroker,
        network: WireNetwork,
        logs: TopicLogs,
        homes: list[int],
        deliveries: Deliveries,
        *,
        is_old: bool,
    ) -> None:
        self._broker = broker
        self._network = network
        self._logs = logs
        self.homes = homes
        self._deliveries = deliveries
        last = RELEASE_2_4 if is_old else {}
        self._hello = ApiVersionsResponse(
            api_keys=[
                ApiVersionsResponseApi(
                    api_key=each.api_key,
                    min_version=each.versions.first,
                    max_version=min(each.versions.last, last.get(each.api_key or 0, each.versions.last)),
                )
                for each in _ASKED
            ]
        )
        self._last_hello = last.get(18, ApiVersionsRequest.versions.last)
        self._answers: dict[type[Message], Callable[[Any, int, int], Message]] = {
            MetadataRequest: self._metadata,
            FindCoordinatorRequest: self._find_coordinator,
            ListOffsetsRequest: self._list_offsets,
            OffsetForLeaderEpochRequest: self._epoch_ends,
        }

    def receive(self, request: Request) -> None:
        assert isinstance(request, WireRequest)
        header, message = decode_request(request.frame)
        version = request.version = header.request_api_version
        kind = type(message)
        read = READERS.get(kind)
        if read is None:
            if kind is ApiVersionsRequest:
                self._greet(request)
            else:
                self._network.answer_with(request, self._answers[kind](message, request.connection.node, version))
            return
        command, respond = read(message, version, header.client_id or "")
        request.command = command
        request.respond = respond
        group_id: str = command.group_id  # type: ignore[union-attr,assignment]
        if type(command) is CommitOffsets:
            request.respond = self._watched(command, respond)
            self._deliveries.check_attempt(command)
        if self.homes[self._broker.coordinator.partition_for(group_id)] != request.connection.node:
            self._network.answer(request, refusal(command, ErrorCode.NOT_COORDINATOR))
            return
        self._broker.receive(request)

    def _watched(self, command: CommitOffsets, respond: Callable[..., Message]) -> Callable[[Reply], Message]:
        def answer(reply: Reply) -> Message:
            assert type(reply) is CommitReply
            self._deliveries.check_acknowledged(command, reply)
            return respond(reply)

        return answer

    def _greet(self, request: WireRequest) -> None:
        if request.version > self._last_hello:
            request.version = 0
            self._network.answer_with(
                request,
                ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._hello.api_keys),
            )
        else:
            self._network.answer_with(request, self._hello)

    # -- the cluster

    def _metadata(self, request: MetadataRequest, node: int, version: int) -> Message:  # noqa: ARG002
        logs, up = self._logs, self._network.up
        names = list(logs.counts) if request.topics is None else [str(each.name) for each in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=each, host=host_of(each), port=PORT) for each in sorted(up)],
            cluster_id="simulated",
            controller_id=min(up),
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        count = self._logs.counts.get(name)
        if count is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        partitions = []
        for number in range(count):
            records = self._logs.partitions[TopicPartition(name, number)]
            partitions.append(
                MetadataResponsePartition(
                    error_code=0,
                    partition_index=number,
                    leader_id=records.leader,
                    leader_epoch=records.epoch,
                    replica_nodes=[records.leader],
                    isr_nodes=[records.leader],
                )
            )
        return MetadataResponseTopic(error_code=0, name=name, topic_id=name.encode().ljust(16), partitions=partitions)

    def _find_coordinator(self, request: FindCoordinatorRequest, node: int, version: int) -> Message:  # noqa: ARG002
        # Many keys are asked for from version 4 on.
        (group_id,) = request.coordinator_keys if version >= 4 else [request.key]
        home = self.homes[self._broker.coordinator.partition_for(group_id)]
        if home in self._network.up:
            code, node_id, host, port = ErrorCode.NONE, home, host_of(home), PORT
        else:
            code, node_id, host, port = ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1
        if version < 4:
            return FindCoordinatorResponse(
                error_code=code, error_message=code.name, node_id=node_id, host=host, port=port
            )
        found = FindCoordinatorResponseCoordinator(
            key=group_id, node_id=node_id, host=host, port=port, error_code=code, error_message=""
        )
        return FindCoordinatorResponse(coordinators=[found])

    # -- the logs

    def _records(
        self, topic: str, number: int, known_epoch: int, node: int
    ) -> tuple[ErrorCode, PartitionRecords | None]:
        records = self._logs.partitions.get(TopicPartition(topic, number))
        if records is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        if records.leader != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
        if -1 < known_epoch < records.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, None
        if known_epoch > records.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH, None
        return ErrorCode.NONE, records

    def _list_offsets(self, request: ListOffsetsRequest, node: int, version: int) -> Message:  # noqa: ARG002
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                code, records = self._records(topic.name, each.partition_index, each.current_leader_epoch, node)
                offset = -1 if records is None else 0 if each.timestamp == _EARLIEST else records.end
                epoch = -1 if records is None or offset == 0 else records.epoch_of(offset - 1)
                partitions.append(
                    ListOffsetsResponsePartition(
                        partition_index=each.partition_index, error_code=code, offset=offset, leader_epoch=epoch
                    )
                )
            topics.append(ListOffsetsResponseTopic(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _epoch_ends(self, request: OffsetForLeaderEpochRequest, node: int, version: int) -> Message:  # noqa: ARG002
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                code, records = self._records(topic.topic, each.partition, each.current_leader_epoch, node)
                epoch, end = (-1, -1) if records is None else records.end_of(each.leader_epoch)
                partitions.append(
                    OffsetForLeaderEpochResponsePartition(
                        error_code=code, partition=each.partition, leader_epoch=epoch, end_offset=end
                    )
                )
            topics.append(OffsetForLeaderEpochResponseTopic(topic=topic.topic, partitions=partitions))
        return OffsetForLeaderEpochResponse(topics=topics)
