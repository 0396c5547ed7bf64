"""DeleteTopics (20): remove topics.

v1  names and a timeout; v0 is gone from Kafka and not spoken here
v2  throttling happens after the response is sent
v3  TOPIC_DELETION_DISABLED is a possible answer
v4  flexible
v5  the response adds error messages
v6  a topic goes by name or by id, in a new list
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int16, int32, string, uuid


class DeleteTopicsRequestTopic(Struct):
    name: str | None = field(string, nullable="0+", default=None)
    topic_id: bytes = field(uuid)


class DeleteTopicsRequest(Message, api_key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicsRequestTopic] = field(array(DeleteTopicsRequestTopic), versions="6+")
    topic_names: list[str] = field(array(string), versions="0-5", ignorable=True)
    timeout_ms: int = field(int32)


class DeleteTopicsResponseTopic(Struct):
    name: str | None = field(string, nullable="6+")
    topic_id: bytes = field(uuid, versions="6+", ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message, api_key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = field(int32)
    responses: list[DeleteTopicsResponseTopic] = field(array(DeleteTopicsResponseTopic))
