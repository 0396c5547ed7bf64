"""CreatePartitions: give topics more partitions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.api.topic_rules import MOST_CHANGES, TooManyChanges, check_room, plan_partitions
from seamark.broker.cluster.cluster import require_topic
from seamark.broker.net.slices import lazily
from seamark.broker.refusals import RequestRefused
from seamark.storage.errors import StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseResult,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.cluster.topics import Topic
    from seamark.broker.net.context import RequestContext

API = "CreatePartitions"
VERSIONS = "0-3"


def handle(node: Services, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    counts = Counter(topic.name for topic in request.topics)
    outcomes: dict[str, RequestRefused | None] = {}
    plans: list[tuple[Topic, list[list[int]]]] = []
    changes = len(counts)
    partitions = 0
    for wanted in {topic.name: topic for topic in request.topics}.values():
        if changes > MOST_CHANGES:
            break
        try:
            topic, replicas = _plan(node, wanted, context, is_repeated=counts[wanted.name] > 1)
            check_room(node.cluster, partitions + len(replicas))
        except TooManyChanges:
            changes = MOST_CHANGES + 1
            break
        except RequestRefused as refusal:
            outcomes[wanted.name] = refusal
            continue
        outcomes[wanted.name] = None
        plans.append((topic, replicas))
        partitions += len(replicas)
        changes += len(replicas)
    if changes > MOST_CHANGES:
        outcomes = dict.fromkeys(counts, TooManyChanges())
        plans.clear()
    if plans and not request.validate_only:
        try:
            node.cluster.add_partitions_to(plans)
        except StorageFailed as error:
            failed = RequestRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            outcomes |= dict.fromkeys((topic.name for topic, _ in plans), failed)
    return CreatePartitionsResponse(results=lazily(_answer, outcomes.items()))


def _plan(
    node: Services, wanted: CreatePartitionsRequestTopic, context: RequestContext, *, is_repeated: bool
) -> tuple[Topic, list[list[int]]]:
    if is_repeated:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "the topic is named more than once")
    if not context.may(Operation.ALTER, ResourceType.TOPIC, wanted.name):
        raise RequestRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the client may not alter it")
    topic = require_topic(node.cluster, wanted.name)
    assignments = None if wanted.assignments is None else [each.broker_ids for each in wanted.assignments]
    return topic, plan_partitions(node.cluster, topic, wanted.count, assignments)


def _answer(outcome: tuple[str, RequestRefused | None]) -> CreatePartitionsResponseResult:
    name, refusal = outcome
    if refusal is None:
        return CreatePartitionsResponseResult(name=name)
    return CreatePartitionsResponseResult(name=name, error_code=refusal.code, error_message=refusal.reason)


def refuse(request: CreatePartitionsRequest, version: int, code: ErrorCode) -> CreatePartitionsResponse:  # noqa: ARG001
    return CreatePartitionsResponse(
        results=[CreatePartitionsResponseResult(name=topic.name, error_code=code) for topic in request.topics]
    )
