"""CreatePartitions (37): give topics more partitions.

v0  the new count, replica assignments for the added ones, a dry run
v1  throttling happens after the response is sent
v2  flexible
v3  THROTTLING_QUOTA_EXCEEDED is a possible answer
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, field, int16, int32, string


class CreatePartitionsRequestAssignment(Struct):
    broker_ids: list[int] = field(array(int32))


class CreatePartitionsRequestTopic(Struct):
    name: str = field(string)
    count: int = field(int32)
    assignments: list[CreatePartitionsRequestAssignment] | None = field(
        array(CreatePartitionsRequestAssignment), nullable="0+"
    )


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsRequestTopic] = field(array(CreatePartitionsRequestTopic))
    timeout_ms: int = field(int32)
    validate_only: bool = field(boolean)


class CreatePartitionsResponseResult(Struct):
    name: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(int32)
    results: list[CreatePartitionsResponseResult] = field(array(CreatePartitionsResponseResult))
