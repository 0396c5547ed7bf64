"""Metadata: nodes, topics, partitions and their leaders; asking about a topic that does not exist may make it.

As Kafka does, a topic that is made on the way is still answered UNKNOWN_TOPIC_OR_PARTITION: the client asks again and
then sees it. All that a request makes is one change of the cluster's state, and not more than
``MOST_MADE_BY_METADATA``; the rest is LEADER_NOT_AVAILABLE, upon which clients ask again. A topic that the client may
not see is TOPIC_AUTHORIZATION_FAILED when named and left out when all are asked for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import chain
from typing import TYPE_CHECKING

from seamark.acls import CLUSTER_NAME, Operation, ResourceType
from seamark.broker.api.topic_rules import MOST_MADE_BY_METADATA, check_new_name, create_automatically
from seamark.broker.cluster.topics import INTERNAL_TOPICS, Topic, check_name
from seamark.broker.log.partition import NO_LEADER, Partition
from seamark.broker.net.slices import counted_lazily, lazily
from seamark.broker.refusals import RequestRefused
from seamark.broker.security.operations import OPERATIONS_NOT_ASKED, authorized_operations
from seamark.storage.errors import StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from seamark.wire.schema.schema import ZERO_UUID

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.cluster.nodes import ClusterNode
    from seamark.broker.net.context import RequestContext

API = "Metadata"
VERSIONS = "0-13"
HAS_LONG_ANSWERS = True
MAX_ELEMENTS = 1 << 17
_TOPICS_BY_ID = 12


def handle(
    node: Services, request: MetadataRequest, context: RequestContext
) -> MetadataResponse | Generator[None, None, MetadataResponse]:
    wanted = request.topics
    if wanted is None or (context.version == 0 and not wanted):
        return _describe_all(node, request, context)
    if not wanted:
        return _respond(node, request, context, [])
    return _describe_named(node, request, context, wanted)


def _describe_all(
    node: Services, request: MetadataRequest, context: RequestContext
) -> Generator[None, None, MetadataResponse]:
    visible = list(node.cluster.topics.values())
    if not context.connection.session.is_unrestricted:
        every, visible = visible, []
        for topic in every:
            if context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
                visible.append(topic)
            yield
    return _respond(node, request, context, lazily(lambda topic: _describe(topic, request, context), visible))


def _describe_named(
    node: Services, request: MetadataRequest, context: RequestContext, wanted: list[MetadataRequestTopic]
) -> Generator[None, None, MetadataResponse]:
    # What is named twice is answered once.
    names: dict[str, None] = {}
    ids: dict[bytes, None] = {}
    for each in wanted:
        if each.name is not None:
            names[each.name] = None
        elif context.version < _TOPICS_BY_ID:
            return refuse(request, context.version, ErrorCode.INVALID_REQUEST)
        else:
            ids[each.topic_id] = None
        yield
    missing = yield from _create_missing(node, names, request, context)
    topics = counted_lazily(
        len(names) + len(ids),
        chain(
            (_find_by_name(node, name, missing.get(name), request, context) for name in names),
            (_find_by_id(node, topic_id, request, context) for topic_id in ids),
        ),
    )
    return _respond(node, request, context, topics)


def _respond(
    node: Services, request: MetadataRequest, context: RequestContext, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    cluster = node.cluster
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


def _broker(node: ClusterNode, context: RequestContext) -> MetadataResponseBroker:
    address = node.address_for(context.connection)
    return MetadataResponseBroker(node_id=node.id, host=address.host, port=address.port, rack=node.rack)


def _create_missing(
    node: Services, names: Iterable[str], request: MetadataRequest, context: RequestContext
) -> Generator[None, None, dict[str, ErrorCode]]:
    """Make the topics that are missing, if the client wants and may; the error of each that was missing."""
    cluster = node.cluster
    if not (request.allow_auto_topic_creation and node.settings["auto.create.topics.enable"]):
        return {}
    may_create_any = context.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    codes: dict[str, ErrorCode] = {}
    made: list[str] = []
    for name in names:
        yield
        if name in cluster.topics or not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            continue
        if not (may_create_any or context.may(Operation.CREATE, ResourceType.TOPIC, name)):
            codes[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        try:
            check_new_name(cluster, name)
        except RequestRefused as refusal:
            codes[name] = refusal.code
            continue
        codes[name] = ErrorCode.LEADER_NOT_AVAILABLE
        if len(made) < MOST_MADE_BY_METADATA:
            made.append(name)
    try:
        codes.update(create_automatically(cluster, made))
    except StorageFailed as error:
        node.note_failure(context.endpoint.api.name, error)
    return codes


def _find_by_name(
    node: Services, name: str, missing: ErrorCode | None, request: MetadataRequest, context: RequestContext
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
    node: Services, topic_id: bytes, request: MetadataRequest, context: RequestContext
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
    def refused(topic: MetadataRequestTopic) -> MetadataResponseTopic:
        name = "" if topic.name is None and version < _TOPICS_BY_ID else topic.name
        return MetadataResponseTopic(error_code=code, name=name, topic_id=topic.topic_id)

    return MetadataResponse(topics=lazily(refused, request.topics or []), error_code=code)
