"""DeleteRecords (21): move the start of partitions forward.

v0  an offset per partition; -1 stands for the high watermark
v1  throttling happens after the response is sent
v2  flexible
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int16, int32, int64, string


class DeleteRecordsRequestPartition(Struct):
    partition_index: int = field(int32)
    offset: int = field(int64)


class DeleteRecordsRequestTopic(Struct):
    name: str = field(string)
    partitions: list[DeleteRecordsRequestPartition] = field(array(DeleteRecordsRequestPartition))


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsRequestTopic] = field(array(DeleteRecordsRequestTopic))
    timeout_ms: int = field(int32)


class DeleteRecordsResponsePartition(Struct):
    partition_index: int = field(int32)
    low_watermark: int = field(int64)
    error_code: int = field(int16)


class DeleteRecordsResponseTopic(Struct):
    name: str = field(string)
    partitions: list[DeleteRecordsResponsePartition] = field(array(DeleteRecordsResponsePartition))


class DeleteRecordsResponse(Message, api_key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(int32)
    topics: list[DeleteRecordsResponseTopic] = field(array(DeleteRecordsResponseTopic))
