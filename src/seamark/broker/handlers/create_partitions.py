"""CreatePartitions: give topics more partitions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from seamark.broker.cluster import require_topic
from seamark.broker.operations import Operation, ResourceType
from seamark.broker.refusals import RequestRefused
from seamark.broker.topic_rules import plan_partitions
from seamark.storage.errors import StorageFailed
from seamark.wire.error_codes import ErrorCode
from seamark.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseResult,
)

if TYPE_CHECKING:
    from seamark.broker.context import RequestContext
    from seamark.broker.node import Node

API = "CreatePartitions"
VERSIONS = "0-3"


def handle(node: Node, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    counts = Counter(topic.name for topic in request.topics)
    response = CreatePartitionsResponse()
    for wanted in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsResponseResult(name=wanted.name)
        response.results.append(result)
        try:
            _add(node, wanted, context, is_repeated=counts[wanted.name] > 1, is_dry_run=request.validate_only)
        except RequestRefused as refusal:
            result.error_code, result.error_message = refusal.code, refusal.reason
        except StorageFailed as error:
            result.error_code, result.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    return response


def _add(
    node: Node,
    wanted: CreatePartitionsRequestTopic,
    context: RequestContext,
    *,
    is_repeated: bool,
    is_dry_run: bool,
) -> None:
    if is_repeated:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "the topic is named more than once")
    if not context.may(Operation.ALTER, ResourceType.TOPIC, wanted.name):
        raise RequestRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the client may not alter it")
    topic = require_topic(node.cluster, wanted.name)
    assignments = None if wanted.assignments is None else [each.broker_ids for each in wanted.assignments]
    replicas = plan_partitions(node.cluster, topic, wanted.count, assignments)
    if not is_dry_run:
        node.cluster.add_partitions(topic, replicas)


def refuse(request: CreatePartitionsRequest, version: int, code: ErrorCode) -> CreatePartitionsResponse:  # noqa: ARG001
    return CreatePartitionsResponse(
        results=[CreatePartitionsResponseResult(name=topic.name, error_code=code) for topic in request.topics]
    )
