"""OffsetFetch (9): how far a group got (A18, A19, A32, A35).

v0  reads what OffsetCommit v0 stored in ZooKeeper
v1  reads the offsets topic
v2  null topics ask for all; the response adds an error code for the group
v3  the response adds throttling
v4  throttling happens after the response is sent
v5  the response adds leader epochs
v6  flexible
v7  the request may insist on offsets that no open transaction can change
v8  many groups at once, in place of the one
v9  adds member id and epoch of the newer group protocol
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, field, int16, int32, int64, string


class OffsetFetchRequestTopic(Struct):
    name: str = field(string)
    partition_indexes: list[int] = field(array(int32))


class OffsetFetchRequestGroup(Struct):
    group_id: str = field(string)
    member_id: str | None = field(string, versions="9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = field(int32, versions="9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopic] | None = field(array(OffsetFetchRequestTopic), nullable="0+")


class OffsetFetchRequest(Message, api_key=9, versions="0-9", flexible="6+"):
    group_id: str = field(string, versions="0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(array(OffsetFetchRequestTopic), versions="0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(array(OffsetFetchRequestGroup), versions="8+")
    require_stable: bool = field(boolean, versions="7+")


class OffsetFetchResponsePartition(Struct):
    partition_index: int = field(int32)
    committed_offset: int = field(int64)
    committed_leader_epoch: int = field(int32, versions="5+", default=-1, ignorable=True)
    metadata: str | None = field(string, nullable="0+")
    error_code: int = field(int16)


class OffsetFetchResponseTopic(Struct):
    name: str = field(string)
    partitions: list[OffsetFetchResponsePartition] = field(array(OffsetFetchResponsePartition))


class OffsetFetchResponseGroup(Struct):
    group_id: str = field(string)
    topics: list[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic))
    error_code: int = field(int16)


class OffsetFetchResponse(Message, api_key=9, versions="0-9", flexible="6+"):
    throttle_time_ms: int = field(int32, versions="3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic), versions="0-7")
    error_code: int = field(int16, versions="2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(array(OffsetFetchResponseGroup), versions="8+")
