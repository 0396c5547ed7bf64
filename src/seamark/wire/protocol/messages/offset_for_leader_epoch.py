"""OffsetForLeaderEpoch (23): where a leader epoch ends, to detect truncation.

v2  the client's own leader epoch fences; v0 and v1 are gone from Kafka and not spoken here
v3  adds the replica id: -1 a consumer, -2 one that may see past the high watermark
v4  flexible
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int16, int32, int64, string


class OffsetForLeaderEpochRequestPartition(Struct):
    partition: int = field(int32)
    current_leader_epoch: int = field(int32, default=-1)
    leader_epoch: int = field(int32)


class OffsetForLeaderEpochRequestTopic(Struct):
    topic: str = field(string)
    partitions: list[OffsetForLeaderEpochRequestPartition] = field(array(OffsetForLeaderEpochRequestPartition))


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="2-4", flexible="4+"):
    replica_id: int = field(int32, versions="3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderEpochRequestTopic] = field(array(OffsetForLeaderEpochRequestTopic))


class OffsetForLeaderEpochResponsePartition(Struct):
    error_code: int = field(int16)
    partition: int = field(int32)
    leader_epoch: int = field(int32, default=-1)
    end_offset: int = field(int64, default=-1)


class OffsetForLeaderEpochResponseTopic(Struct):
    topic: str = field(string)
    partitions: list[OffsetForLeaderEpochResponsePartition] = field(array(OffsetForLeaderEpochResponsePartition))


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int = field(int32)
    topics: list[OffsetForLeaderEpochResponseTopic] = field(array(OffsetForLeaderEpochResponseTopic))
