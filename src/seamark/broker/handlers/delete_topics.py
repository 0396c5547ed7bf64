"""DeleteTopics: remove topics by name or, from version 6 on, by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.broker.operations import Operation, ResourceType
from seamark.storage.errors import StorageFailed
from seamark.wire.error_codes import ErrorCode
from seamark.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from seamark.wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from seamark.broker.context import RequestContext
    from seamark.broker.node import Node

API = "DeleteTopics"
VERSIONS = "1-6"
IDS_SINCE = 6
DISABLED_SINCE = 3


def handle(node: Node, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    if not node.settings["delete.topic.enable"]:
        code = ErrorCode.TOPIC_DELETION_DISABLED if context.version >= DISABLED_SINCE else ErrorCode.INVALID_REQUEST
        return refuse(request, context.version, code)
    wanted = _wanted(request, context.version)
    names = [each.name for each in wanted if each.name is not None]
    ids = [each.topic_id for each in wanted if each.topic_id != ZERO_UUID]
    named_ids = {topic.id for name in names if (topic := node.cluster.topics.get(name)) is not None}
    response = DeleteTopicsResponse()
    for each in {(each.name, each.topic_id): each for each in wanted}.values():
        topic = node.cluster.topics.get(each.name or "")
        if (each.name is None) == (each.topic_id == ZERO_UUID):
            reason = "a topic is named by its name or by its id"
            response.responses.append(_answer(each.name, each.topic_id, ErrorCode.INVALID_REQUEST, reason))
        elif names.count(each.name or "") > 1 or ids.count(each.topic_id) > 1:
            reason = "the topic is named more than once"
            response.responses.append(_answer(each.name, each.topic_id, ErrorCode.INVALID_REQUEST, reason))
        elif topic is not None and topic.id in ids:
            reason = "the topic is named by its name and by its id"
            response.responses.append(_answer(each.name, topic.id, ErrorCode.INVALID_REQUEST, reason))
        elif each.topic_id in named_ids:
            continue
        else:
            response.responses.append(_delete(node, each, context))
    return response


def _wanted(request: DeleteTopicsRequest, version: int) -> list[DeleteTopicsRequestTopic]:
    if version >= IDS_SINCE:
        return request.topics
    return [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]


def _delete(node: Node, wanted: DeleteTopicsRequestTopic, context: RequestContext) -> DeleteTopicsResponseTopic:
    cluster = node.cluster
    by_id = wanted.name is None
    topic = cluster.topics_by_id.get(wanted.topic_id) if by_id else cluster.topics.get(wanted.name or "")
    name = topic.name if topic is not None else wanted.name
    if by_id and topic is None:
        return _answer(None, wanted.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
    assert name is not None
    may_see = context.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if not context.may(Operation.DELETE, ResourceType.TOPIC, name):
        # Whoever may not see the topic does not learn the name behind its id.
        shown = name if may_see or not by_id else None
        return _answer(shown, wanted.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the client may not delete it")
    if topic is None:
        return _answer(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    try:
        cluster.delete_topic(topic)
    except StorageFailed as error:
        return _answer(name, topic.id, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return _answer(name, topic.id, ErrorCode.NONE, None)


def _answer(name: str | None, topic_id: bytes, code: ErrorCode, reason: str | None) -> DeleteTopicsResponseTopic:
    return DeleteTopicsResponseTopic(name=name, topic_id=topic_id, error_code=code, error_message=reason)


def refuse(request: DeleteTopicsRequest, version: int, code: ErrorCode) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[_answer(each.name, each.topic_id, code, None) for each in _wanted(request, version)]
    )
