"""OffsetCommit (8): a group stores how far it got (A1 to A9, A17, A31, A33, A34).

v0  stores in ZooKeeper
v1  adds generation, member and a client timestamp; stores in the offsets topic
v2  a retention time takes the place of the timestamp
v3  the response adds throttling
v4  throttling happens after the response is sent
v5  drops the retention time
v6  adds leader epochs
v7  adds the instance id
v8  flexible
v9  serves the newer group protocol too, the generation then being a member epoch
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int16, int32, int64, string


class OffsetCommitRequestPartition(Struct):
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, versions="6+", default=-1, ignorable=True)
    commit_timestamp: int = field(int64, versions="1", default=-1)
    committed_metadata: str | None = field(string, nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = field(string)
    partitions: list[OffsetCommitRequestPartition] = field(array(OffsetCommitRequestPartition))


class OffsetCommitRequest(Message, api_key=8, versions="0-9", flexible="8+"):
    group_id: str = field(string)
    generation_id_or_member_epoch: int = field(int32, versions="1+", default=-1, ignorable=True)
    member_id: str = field(string, versions="1+", ignorable=True)
    group_instance_id: str | None = field(string, versions="7+", nullable="7+", default=None)
    retention_time_ms: int = field(int64, versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(array(OffsetCommitRequestTopic))


class OffsetCommitResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


class OffsetCommitResponseTopic(Struct):
    name: str = field(string)
    partitions: list[OffsetCommitResponsePartition] = field(array(OffsetCommitResponsePartition))


class OffsetCommitResponse(Message, api_key=8, versions="0-9", flexible="8+"):
    throttle_time_ms: int = field(int32, versions="3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(array(OffsetCommitResponseTopic))
