"""ListOffsets (2): offsets of a partition by time: start, end, or the first record at or after a timestamp.

v1   one offset with its timestamp; v0 (a list of offsets) is gone from Kafka and not spoken here
v2   adds the isolation level; the response adds throttling
v3   throttling happens after the response is sent
v4   adds leader epochs
v5   OFFSET_NOT_AVAILABLE is a possible answer
v6   flexible
v7   timestamp -3 asks for the record with the largest timestamp
v8   timestamp -4 asks for the start of the local log
v9   timestamp -5 asks for the last tiered offset
v10  adds a timeout, because remote storage may be asked
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int8, int16, int32, int64, string


class ListOffsetsRequestPartition(Struct):
    partition_index: int = field(int32)
    current_leader_epoch: int = field(int32, versions="4+", default=-1, ignorable=True)
    timestamp: int = field(int64)


class ListOffsetsRequestTopic(Struct):
    name: str = field(string)
    partitions: list[ListOffsetsRequestPartition] = field(array(ListOffsetsRequestPartition))


class ListOffsetsRequest(Message, api_key=2, versions="1-10", flexible="6+"):
    replica_id: int = field(int32)
    isolation_level: int = field(int8, versions="2+")
    topics: list[ListOffsetsRequestTopic] = field(array(ListOffsetsRequestTopic))
    timeout_ms: int = field(int32, versions="10+", ignorable=True)


class ListOffsetsResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    timestamp: int = field(int64, default=-1)
    offset: int = field(int64, default=-1)
    leader_epoch: int = field(int32, versions="4+", default=-1)


class ListOffsetsResponseTopic(Struct):
    name: str = field(string)
    partitions: list[ListOffsetsResponsePartition] = field(array(ListOffsetsResponsePartition))


class ListOffsetsResponse(Message, api_key=2, versions="1-10", flexible="6+"):
    throttle_time_ms: int = field(int32, versions="2+", ignorable=True)
    topics: list[ListOffsetsResponseTopic] = field(array(ListOffsetsResponseTopic))
