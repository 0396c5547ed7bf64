"""Metadata: nodes, topics, partitions and their leaders; asking about a topic that does not exist may make it.

As Kafka does, a topic that is made on the way is still answered UNKNOWN_TOPIC_OR_PARTITION: the client asks again and
then sees it. All that a request makes is one change of the cluster's state, and not more than
``MOST_MADE_BY_METADATA``; the rest is LEADER_NOT_AVAILABLE, upon which clients ask again. A topic that the client may
not see is TOPIC_AUTHORIZATION_FAILED when named and left out when all are asked for.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from seamark.broker.operations import (
    CLUSTER_NAME,
    OPERATIONS_NOT_ASKED,
    Operation,
    ResourceType,
    authorized_operations,
)
from seamark.broker.partition import NO_LEADER, Partition
from seamark.broker.refusals import RequestRefused
from seamark.broker.slices import counted_lazily, lazily
from seamark.broker.topic_rules import create_automatically
from seamark.broker.topics import INTERNAL_TOPICS, Topic, check_name
from seamark.storage.errors import StorageFailed
from seamark.wire.error_codes import ErrorCode
from seamark.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from seamark.wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from seamark.broker.context import RequestContext
    from seamark.broker.node import Node

API = "Metadata"
VERSIONS = "0-13"
HAS_LONG_ANSWERS = True
MAX_ELEMENTS = 1 << 17


def handle(node: Node, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    cluster = node.cluster
    wanted = request.topics
    if wanted is None or (context.version == 0 and not wanted):
        visible = list(cluster.topics.values())
        if not context.connection.session.is_unrestricted:
            visible = [each for each in visible if context.may(Operation.DESCRIBE, ResourceType.TOPIC, each.name)]
        topics = lazily(lambda topic: _describe(topic, request, context), visible)
    else:
        if any(each.name is None and context.version < 12 for each in wanted):
            return refuse(request, context.version, ErrorCode.INVALID_REQUEST)
        names = list(dict.fromkeys(each.name for each in wanted if each.name is not None))
        ids = list(dict.fromkeys(each.topic_id for each in wanted if each.name is None))
        missing = _create_missing(node, names, request, context)
        topics = counted_lazily(
            len(names) + len(ids),
            chain(
                (_find_by_name(node, name, missing.get(name), request, context) for name in names),
                (_find_by_id(node, topic_id, request, context) for topic_id in ids),
            ),
        )
    response = MetadataResponse(
        brokers=[_broker(each, context) for each in cluster.running_nodes],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        # Who may not even look at the cluster is told that nothing is allowed.
        response.cluster_authorized_operations = (
            authorized_operations(context.connection.session, ResourceType.CLUSTER, CLUSTER_NAME)
            if context.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
            else 0
        )
    return response


def _broker(node: Node, context: RequestContext) -> MetadataResponseBroker:
    address = node.address_for(context.connection)
    return MetadataResponseBroker(node_id=node.id, host=address.host, port=address.port, rack=node.rack)


def _create_missing(
    node: Node, names: list[str], request: MetadataRequest, context: RequestContext
) -> dict[str, ErrorCode]:
    """Make the topics that are missing, if the client wants and may; the error of each that was missing."""
    cluster = node.cluster
    if not (request.allow_auto_topic_creation and node.settings["auto.create.topics.enable"]):
        return {}
    may_create_any = context.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    codes: dict[str, ErrorCode] = {}
    for name in names:
        if name in cluster.topics or not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            continue
        is_allowed = may_create_any or context.may(Operation.CREATE, ResourceType.TOPIC, name)
        codes[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    wanted = [name for name, code in codes.items() if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    try:
        codes.update(create_automatically(cluster, wanted))
    except StorageFailed as error:
        node.server.note_failure(context.endpoint.api.name, error)
        codes.update(dict.fromkeys(wanted, ErrorCode.LEADER_NOT_AVAILABLE))
    return codes


def _find_by_name(
    node: Node, name: str, missing: ErrorCode | None, request: MetadataRequest, context: RequestContext
) -> MetadataResponseTopic:
    if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    if missing is not None:
        return _failed(missing, name)
    topic = node.cluster.topics.get(name)
    if topic is not None:
        return _describe(topic, request, context)
    try:
        check_name(name)
    except RequestRefused as refusal:
        return _failed(refusal.code, name)
    return _failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


def _find_by_id(
    node: Node, topic_id: bytes, request: MetadataRequest, context: RequestContext
) -> MetadataResponseTopic:
    topic = node.cluster.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        # The name is what the client may not learn.
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return _describe(topic, request, context)


def _failed(code: ErrorCode, name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=ZERO_UUID, is_internal=name in INTERNAL_TOPICS, partitions=[]
    )


def _describe(topic: Topic, request: MetadataRequest, context: RequestContext) -> MetadataResponseTopic:
    operations = OPERATIONS_NOT_ASKED
    if request.include_topic_authorized_operations:
        operations = authorized_operations(context.connection.session, ResourceType.TOPIC, topic.name)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        # A copy: the topic may be given more partitions before the last of these is written.
        partitions=lazily(_describe_partition, topic.partitions[:]),
        topic_authorized_operations=operations,
    )


def _describe_partition(partition: Partition) -> MetadataResponsePartition:
    running = partition.running_replicas
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=running,
        offline_replicas=[node_id for node_id in partition.replicas if node_id not in running],
    )


def refuse(request: MetadataRequest, version: int, code: ErrorCode) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(
            error_code=code, name=each.name if each.name is not None or version >= 12 else "", topic_id=each.topic_id
        )
        for each in request.topics or []
    ]
    return MetadataResponse(topics=topics, error_code=code)
