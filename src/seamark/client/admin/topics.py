"""Topics, partitions, records and the cluster itself, for the admin client. Runs on the I/O loop.

Changes of topics go to the controller where one is known: brokers with ZooKeeper accept them nowhere else, brokers
without forward them.

A controller answers before the other brokers know. Whoever makes a topic wants to use it, so the admin client asks
every broker until each knows it and names leaders. The topic exists whatever is seen here: patience is short, and
running out of it is no error. Neither is a broker that does not answer, nor a user who may make topics but not look at
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from seamark.client.admin.types import ClusterDescription, NewTopic
from seamark.client.arguments import read_by_address, read_items, read_mapping, read_names, read_whole
from seamark.client.cluster_view import MetadataCache, Node, TopicView
from seamark.client.errors import ClientError, NetworkError, UnsupportedByBroker, broker_error
from seamark.client.net.client import NetworkClient
from seamark.client.net.exchanges import MOST_AT_ONCE
from seamark.client.net.fanout import Results, by_leader, by_topic, retry_each
from seamark.client.records import LARGEST_OFFSET
from seamark.client.requests import Request, VersionedRequest
from seamark.client.timing import Deadline
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages import create_partitions as partitions_api
from seamark.wire.protocol.messages import create_topics as create_api
from seamark.wire.protocol.messages import delete_records as records_api
from seamark.wire.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
)
from seamark.wire.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from seamark.wire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from seamark.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

# Topics, partitions and settings that one request makes or removes: half of what Kafka's controller takes. How many
# partitions a topic gets that leaves it to the broker is not known here.
_CHANGED_AT_ONCE = 5_000
_PARTITIONS_BY_DEFAULT = 10

# How long brokers may take to hear of a new topic, and how often each is asked meanwhile.
_PATIENCE_S = 5.0
_PAUSE_S = 0.02

_NOT_YET = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})


async def fetch_topics(
    network: NetworkClient, names: Iterable[str] | None, deadline: Deadline
) -> tuple[MetadataCache, ClusterDescription]:
    """Fresh metadata of the named topics, or of all; the client's own cache is not touched."""
    request = MetadataRequest(
        topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    response = await network.send_to_any(request, MetadataResponse, deadline=deadline, min_version=4)
    once = MetadataCache(0, network.metadata.backoff)
    once.want_topics((), also_all=True)
    once.updated(response, 0)
    for broker in once.view.brokers.values():
        network.learn_node(broker)
    view = once.view
    return once, ClusterDescription(view.cluster_id or "", view.controller_id, tuple(view.brokers.values()))


async def list_topics(
    network: NetworkClient, deadline: Deadline, *, include_internal: bool = False
) -> dict[str, TopicView]:
    cache, _ = await fetch_topics(network, None, deadline)
    topics = cache.view.topics
    return {name: topics[name] for name in sorted(topics) if include_internal or not topics[name].is_internal}


async def describe_topics(network: NetworkClient, names: Iterable[str], deadline: Deadline) -> Results[str, TopicView]:
    asked = read_names("names", names, "topic names")

    async def attempt(open_names: Sequence[str]) -> dict[str, TopicView | ClientError]:
        cache, _ = await fetch_topics(network, open_names, deadline)
        return {
            name: broker_error(topic.error, "Metadata", f"topic {name!r}") if topic.error else topic
            for name, topic in cache.view.topics.items()
        }

    return await retry_each(asked, attempt, operation="describing topics", config=network.config, deadline=deadline)


async def create_topics(
    network: NetworkClient, topics: Iterable[NewTopic], deadline: Deadline, *, validate_only: bool = False
) -> Results[str, None]:
    by_name = {topic.name: topic for topic in read_items("new_topics", topics, NewTopic)}

    async def attempt(names: Sequence[str]) -> dict[str, ClientError | None]:
        request = create_api.CreateTopicsRequest(
            topics=[_new_topic(by_name[name]) for name in names],
            timeout_ms=min(deadline.remaining_ms, network.config.request_timeout_ms),
            validate_only=validate_only,
        )
        response = await _to_controller(network, request, create_api.CreateTopicsResponse, deadline)
        return {
            topic.name: _outcome(network, topic.error_code, "CreateTopics", topic.name, topic.error_message)
            for topic in response.topics
        }

    made = await retry_each(
        by_name, attempt, operation="creating topics", config=network.config, deadline=deadline,
        at_once=_CHANGED_AT_ONCE, weigh=lambda name: _weight_of(by_name[name]),
    )  # fmt: skip
    if not validate_only:
        await wait_for_propagation(network, dict.fromkeys(made, 1), deadline)
    return made


def _weight_of(topic: NewTopic) -> int:
    replicas = sum(map(len, topic.assignments.values()))
    partitions = _PARTITIONS_BY_DEFAULT if topic.partitions < 0 else topic.partitions
    return 1 + max(partitions, len(topic.assignments) + replicas) + len(topic.config)


def _new_topic(topic: NewTopic) -> create_api.CreateTopicsRequestTopic:
    by_hand = [
        create_api.CreateTopicsRequestAssignment(partition_index=index, broker_ids=list(replicas))
        for index, replicas in topic.assignments.items()
    ]
    return create_api.CreateTopicsRequestTopic(
        name=topic.name,
        num_partitions=-1 if by_hand else topic.partitions,
        replication_factor=-1 if by_hand else topic.replication_factor,
        assignments=by_hand,
        configs=[
            create_api.CreateTopicsRequestConfig(name=name, value=str(value)) for name, value in topic.config.items()
        ],
    )


async def delete_topics(network: NetworkClient, names: Iterable[str], deadline: Deadline) -> Results[str, None]:
    asked = read_names("names", names, "topic names")

    async def attempt(open_names: Sequence[str]) -> dict[str, ClientError | None]:
        timeout_ms = min(deadline.remaining_ms, network.config.request_timeout_ms)

        def make(version: int) -> Message:
            if version >= 6:
                topics = [DeleteTopicsRequestTopic(name=name) for name in open_names]
                return DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)
            return DeleteTopicsRequest(topic_names=list(open_names), timeout_ms=timeout_ms)

        request = VersionedRequest(DeleteTopicsRequest, make)
        response = await _to_controller(network, request, DeleteTopicsResponse, deadline)
        return {
            result.name: _outcome(network, result.error_code, "DeleteTopics", result.name, result.error_message)
            for result in response.responses
            if result.name is not None
        }

    return await retry_each(
        asked, attempt, operation="deleting topics", config=network.config, deadline=deadline, at_once=_CHANGED_AT_ONCE
    )


async def create_partitions(
    network: NetworkClient, counts: Mapping[str, int], deadline: Deadline, *, validate_only: bool = False
) -> Results[str, None]:
    totals = read_mapping("counts", counts, "topic name")
    read_names("counts", totals, "topic names")
    for count in totals.values():
        read_whole("counts", count, -(2**31), 2**31 - 1)

    async def attempt(names: Sequence[str]) -> dict[str, ClientError | None]:
        request = partitions_api.CreatePartitionsRequest(
            topics=[
                partitions_api.CreatePartitionsRequestTopic(name=name, count=counts[name], assignments=None)
                for name in names
            ],
            timeout_ms=min(deadline.remaining_ms, network.config.request_timeout_ms),
            validate_only=validate_only,
        )
        response = await _to_controller(network, request, partitions_api.CreatePartitionsResponse, deadline)
        return {
            result.name: _outcome(network, result.error_code, "CreatePartitions", result.name, result.error_message)
            for result in response.results
        }

    grown = await retry_each(
        counts, attempt, operation="adding partitions", config=network.config, deadline=deadline,
        at_once=_CHANGED_AT_ONCE, weigh=lambda name: max(1, counts[name]),
    )  # fmt: skip
    if not validate_only:
        await wait_for_propagation(network, {name: counts[name] for name in grown}, deadline)
    return grown


async def delete_records(
    network: NetworkClient, before: Mapping[TopicPartition, int], deadline: Deadline
) -> Results[TopicPartition, int]:
    """Move the start of partitions up to an offset, -1 being the end; the answer is the new start of each."""
    before = read_by_address("before", before)
    for offset in before.values():
        read_whole("before", offset, -1, LARGEST_OFFSET)

    def make(partitions: Sequence[TopicPartition]) -> Request:
        return records_api.DeleteRecordsRequest(
            topics=[
                records_api.DeleteRecordsRequestTopic(
                    name=topic,
                    partitions=[
                        records_api.DeleteRecordsRequestPartition(
                            partition_index=index, offset=before[TopicPartition(topic, index)]
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(partitions).items()
            ],
            timeout_ms=min(deadline.remaining_ms, network.config.request_timeout_ms),
        )

    def read(response: records_api.DeleteRecordsResponse) -> dict[TopicPartition, int | ClientError]:
        return {
            partition: broker_error(answer.error_code, "DeleteRecords", f"partition {partition}")
            if answer.error_code
            else answer.low_watermark
            for topic in response.topics
            for answer in topic.partitions
            for partition in (TopicPartition(topic.name, answer.partition_index),)
        }

    async def attempt(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | ClientError]:
        return await by_leader(network, partitions, make, records_api.DeleteRecordsResponse, read, deadline)

    return await retry_each(before, attempt, operation="deleting records", config=network.config, deadline=deadline)


async def describe_cluster(network: NetworkClient, deadline: Deadline) -> ClusterDescription:
    """Id, controller and brokers; asked of DescribeCluster, or of Metadata where a broker before 2.8 lacks it."""
    try:
        response = await network.send_to_any(DescribeClusterRequest(), DescribeClusterResponse, deadline=deadline)
    except UnsupportedByBroker:
        _, description = await fetch_topics(network, (), deadline)
        return description
    if response.error_code:
        raise broker_error(response.error_code, "DescribeCluster", "the cluster", response.error_message)
    brokers = tuple(Node(broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers)
    return ClusterDescription(response.cluster_id, response.controller_id, brokers)


async def _to_controller(network: NetworkClient, request: Request, response: type[M], deadline: Deadline) -> M:
    if network.view.controller_id < 0 or network.metadata.is_stale:
        await network.refresh_metadata(deadline)
    controller = network.view.brokers.get(network.view.controller_id)
    if controller is None:
        return await network.send_to_any(request, response, deadline=deadline)
    try:
        return await network.send(controller.id, request, response, deadline=deadline)
    except NetworkError:
        network.metadata.mark_stale()
        raise


def _outcome(network: NetworkClient, code: int, api: str, topic: str, message: str | None) -> ClientError | None:
    if not code:
        return None
    if error_code(code) is ErrorCode.NOT_CONTROLLER:
        network.metadata.mark_stale()
    return broker_error(code, api, f"topic {topic!r}", message)


async def wait_for_propagation(network: NetworkClient, least_partitions: Mapping[str, int], deadline: Deadline) -> None:
    """Return when every broker that answers knows each topic, with at least so many partitions, all of them led."""
    if least_partitions:
        patience = Deadline(deadline.at_most(_PATIENCE_S))
        brokers = tuple(network.view.brokers)
        await asyncio.gather(*(_wait_for_broker(broker, network, least_partitions, patience) for broker in brokers))


async def _wait_for_broker(
    broker: int, network: NetworkClient, least_partitions: Mapping[str, int], patience: Deadline
) -> None:
    missing = list(least_partitions)
    while not patience.is_over:
        asked = missing[:MOST_AT_ONCE]
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in asked], allow_auto_topic_creation=False
        )
        try:
            answer = await network.send(broker, request, MetadataResponse, deadline=patience, min_version=4)
        except ClientError:
            return
        answered = {topic.name: topic for topic in answer.topics}
        to_come = [name for name in asked if name in answered and _is_to_come(answered[name], least_partitions[name])]
        missing = to_come + missing[MOST_AT_ONCE:]
        if not missing:
            return
        if to_come:
            await asyncio.sleep(patience.at_most(_PAUSE_S))


def _is_to_come(topic: MetadataResponseTopic, least: int) -> bool:
    if topic.error_code:
        return topic.error_code in _NOT_YET
    return len(topic.partitions) < least or any(partition.error_code in _NOT_YET for partition in topic.partitions)
