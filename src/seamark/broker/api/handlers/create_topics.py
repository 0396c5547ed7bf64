"""CreateTopics: make topics, or say whether they could be made."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING

from seamark.acls import CLUSTER_NAME, Operation, ResourceType
from seamark.broker.api.topic_rules import (
    MOST_CHANGES,
    TooManyChanges,
    TopicPlan,
    check_room,
    create_planned,
    plan_topic,
)
from seamark.broker.cluster.topics import metric_name
from seamark.broker.config.topic_configs import TOPIC_KEYS, effective
from seamark.broker.net.slices import lazily
from seamark.broker.refusals import RequestRefused
from seamark.storage.errors import StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "CreateTopics"
VERSIONS = "2-7"
HAS_LONG_ANSWERS = True
DETAILS_SINCE = 5


def handle(node: Services, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    counts = Counter(topic.name for topic in request.topics)
    may_create_any = context.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    outcomes: dict[str, TopicPlan | RequestRefused] = {}
    beside: dict[str, str] = {}
    changes = len(counts)
    partitions = 0
    for topic in {topic.name: topic for topic in request.topics}.values():
        if changes > MOST_CHANGES:
            break
        try:
            _check_request(topic, is_repeated=counts[topic.name] > 1)
            if not may_create_any:
                _check_right(topic, context)
            plan = _plan(node, topic, beside)
            check_room(node.cluster, partitions + len(plan.replicas))
        except TooManyChanges:
            changes = MOST_CHANGES + 1
            break
        except RequestRefused as refusal:
            outcomes[topic.name] = refusal
            continue
        beside[metric_name(topic.name)] = topic.name
        outcomes[topic.name] = plan
        partitions += len(plan.replicas)
        changes += len(plan.replicas) + len(plan.configs)
    if changes > MOST_CHANGES:
        outcomes = dict.fromkeys(counts, TooManyChanges())
    plans = [plan for plan in outcomes.values() if isinstance(plan, TopicPlan)]
    # A dry run shows ids too, which nothing will ever have.
    ids = {plan.name: uuid.uuid4().bytes for plan in plans}
    if plans and not request.validate_only:
        try:
            ids = {topic.name: topic.id for topic in create_planned(node.cluster, plans)}
        except StorageFailed as error:
            failed = RequestRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            outcomes |= dict.fromkeys((plan.name for plan in plans), failed)

    def answer(outcome: tuple[str, TopicPlan | RequestRefused]) -> CreateTopicsResponseTopic:
        name, found = outcome
        if isinstance(found, RequestRefused):
            return _failed(name, found.code, found.reason)
        return _made(node, found, ids[name], context)

    return CreateTopicsResponse(topics=lazily(answer, outcomes.items()))


def _check_request(wanted: CreateTopicsRequestTopic, *, is_repeated: bool) -> None:
    if is_repeated:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "the topic is named more than once")
    if len({config.name for config in wanted.configs}) < len(wanted.configs):
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "a configuration key is given more than once")


def _check_right(wanted: CreateTopicsRequestTopic, context: RequestContext) -> None:
    if not context.may(Operation.CREATE, ResourceType.TOPIC, wanted.name):
        raise RequestRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the client may not create it")


def _plan(node: Services, wanted: CreateTopicsRequestTopic, beside: dict[str, str]) -> TopicPlan:
    return plan_topic(
        node.cluster,
        wanted.name,
        wanted.num_partitions,
        wanted.replication_factor,
        {each.partition_index: each.broker_ids for each in wanted.assignments},
        {config.name: config.value for config in wanted.configs},
        beside,
    )


def _made(node: Services, plan: TopicPlan, topic_id: bytes, context: RequestContext) -> CreateTopicsResponseTopic:
    answer = CreateTopicsResponseTopic(name=plan.name, topic_id=topic_id, error_message=None, configs=[])
    if context.version >= DETAILS_SINCE:
        if context.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, plan.name):
            answer.num_partitions = len(plan.replicas)
            answer.replication_factor = plan.replication_factor
            answer.configs = _configs(node, plan)
        else:
            answer.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return answer


def _configs(node: Services, plan: TopicPlan) -> list[CreateTopicsResponseConfig]:
    shown = []
    for key in TOPIC_KEYS.values():
        found = effective(key, plan.configs, node.settings)
        shown.append(CreateTopicsResponseConfig(name=key.name, value=key.show(found.value), config_source=found.source))
    return shown


def _failed(name: str, code: ErrorCode, reason: str) -> CreateTopicsResponseTopic:
    return CreateTopicsResponseTopic(name=name, error_code=code, error_message=reason, configs=[])


def refuse(request: CreateTopicsRequest, version: int, code: ErrorCode) -> CreateTopicsResponse:  # noqa: ARG001
    return CreateTopicsResponse(topics=[_failed(topic.name, code, "") for topic in request.topics])
