"""CreateTopics (19): make topics.

v2  partitions, replication, assignments, configs and a dry run; v0 and v1 are gone from Kafka and not spoken here
v3  throttling happens after the response is sent
v4  -1 stands for the broker's own partition count and replication factor
v5  flexible; the response shows the topic as made, with its configs
v6  THROTTLING_QUOTA_EXCEEDED is a possible answer
v7  the response adds topic ids
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, field, int8, int16, int32, string, uuid


class CreateTopicsRequestAssignment(Struct):
    partition_index: int = field(int32)
    broker_ids: list[int] = field(array(int32))


class CreateTopicsRequestConfig(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="0+")


class CreateTopicsRequestTopic(Struct):
    name: str = field(string)
    num_partitions: int = field(int32)
    replication_factor: int = field(int16)
    assignments: list[CreateTopicsRequestAssignment] = field(array(CreateTopicsRequestAssignment))
    configs: list[CreateTopicsRequestConfig] = field(array(CreateTopicsRequestConfig))


class CreateTopicsRequest(Message, api_key=19, versions="2-7", flexible="5+"):
    topics: list[CreateTopicsRequestTopic] = field(array(CreateTopicsRequestTopic))
    timeout_ms: int = field(int32, default=60000)
    validate_only: bool = field(boolean)


class CreateTopicsResponseConfig(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="0+")
    read_only: bool = field(boolean)
    config_source: int = field(int8, default=-1)
    is_sensitive: bool = field(boolean)


class CreateTopicsResponseTopic(Struct):
    name: str = field(string)
    topic_id: bytes = field(uuid, versions="7+", ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    topic_config_error_code: int = field(int16, versions="5+", tag=0, ignorable=True)
    num_partitions: int = field(int32, versions="5+", default=-1, ignorable=True)
    replication_factor: int = field(int16, versions="5+", default=-1, ignorable=True)
    configs: list[CreateTopicsResponseConfig] | None = field(
        array(CreateTopicsResponseConfig), versions="5+", nullable="5+", ignorable=True
    )


class CreateTopicsResponse(Message, api_key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int = field(int32)
    topics: list[CreateTopicsResponseTopic] = field(array(CreateTopicsResponseTopic))
