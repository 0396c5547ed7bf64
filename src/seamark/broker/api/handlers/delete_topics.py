"""DeleteTopics: remove topics by name or, from version 6 on, by id."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from seamark.acls import Operation, ResourceType
from seamark.broker.api.topic_rules import MOST_CHANGES, TooManyChanges
from seamark.counts import shortened
from seamark.storage.errors import StorageFailed
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from seamark.wire.schema.schema import ZERO_UUID

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.cluster.topics import Topic
    from seamark.broker.net.context import RequestContext

API = "DeleteTopics"
VERSIONS = "1-6"
IDS_SINCE = 6
DISABLED_SINCE = 3


def handle(node: Services, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    if not node.settings["delete.topic.enable"]:
        code = ErrorCode.TOPIC_DELETION_DISABLED if context.version >= DISABLED_SINCE else ErrorCode.INVALID_REQUEST
        return refuse(request, context.version, code)
    wanted = _wanted(request, context.version)
    if len(wanted) > MOST_CHANGES:
        refusal = TooManyChanges()
        response = refuse(request, context.version, refusal.code)
        for refused in response.responses:
            refused.error_message = refusal.reason
        return response
    asked = list({(each.name, each.topic_id): each for each in wanted}.values())
    counts = Counter(each.name or each.topic_id for each in wanted)
    answers: list[DeleteTopicsResponseTopic] = []
    found: list[tuple[DeleteTopicsRequestTopic, Topic]] = []
    for each in asked:
        if (each.name is None) == (each.topic_id == ZERO_UUID):
            reason = "a topic is named by its name or by its id"
            answers.append(_answer(each.name, each.topic_id, ErrorCode.INVALID_REQUEST, reason))
        elif counts[each.name or each.topic_id] > 1:
            reason = "the topic is named more than once"
            answers.append(_answer(each.name, each.topic_id, ErrorCode.INVALID_REQUEST, reason))
        else:
            topic = _find(node, each, context)
            if isinstance(topic, DeleteTopicsResponseTopic):
                answers.append(topic)
            else:
                found.append((each, topic))
    names, ids = ({topic.name for each, topic in found if (each.name is None) is by_id} for by_id in (False, True))
    doomed: list[Topic] = []
    for each, topic in found:
        if topic.name not in names or topic.name not in ids:
            doomed.append(topic)
        elif each.name is not None:
            # Told once for the two.
            reason = "the topic is named by its name and by its id"
            answers.append(_answer(topic.name, topic.id, ErrorCode.INVALID_REQUEST, reason))
    code, why = _delete(node, doomed)
    answers += [_answer(topic.name, topic.id, code, why) for topic in doomed]
    return DeleteTopicsResponse(responses=answers)


def _wanted(request: DeleteTopicsRequest, version: int) -> list[DeleteTopicsRequestTopic]:
    if version >= IDS_SINCE:
        return request.topics
    return [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]


def _find(
    node: Services, wanted: DeleteTopicsRequestTopic, context: RequestContext
) -> Topic | DeleteTopicsResponseTopic:
    """The topic that is to go, or the answer why it is not."""
    cluster = node.cluster
    by_id = wanted.name is None
    topic = cluster.topics_by_id.get(wanted.topic_id) if by_id else cluster.topics.get(wanted.name or "")
    name = topic.name if topic is not None else wanted.name
    if by_id and topic is None:
        return _answer(None, wanted.topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
    assert name is not None
    if not context.may(Operation.DELETE, ResourceType.TOPIC, name):
        # Whoever may not see the topic does not learn the name behind its id.
        may_see = not by_id or context.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
        shown = name if may_see else None
        return _answer(shown, wanted.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the client may not delete it")
    if topic is None:
        return _answer(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {shortened(name)!r}")
    return topic


def _delete(node: Services, doomed: list[Topic]) -> tuple[ErrorCode, str | None]:
    """Remove topics that are there, all or none."""
    if doomed:
        try:
            node.cluster.delete_topics(doomed)
        except StorageFailed as error:
            return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    return ErrorCode.NONE, None


def _answer(name: str | None, topic_id: bytes, code: ErrorCode, reason: str | None) -> DeleteTopicsResponseTopic:
    return DeleteTopicsResponseTopic(name=name, topic_id=topic_id, error_code=code, error_message=reason)


def refuse(request: DeleteTopicsRequest, version: int, code: ErrorCode) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[_answer(each.name, each.topic_id, code, None) for each in _wanted(request, version)]
    )
