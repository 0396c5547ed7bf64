"""SyncGroup (14): hand out the assignment of a classic group (A27, A29).

v0  the leader sends everyone's assignment, all others none; each gets its own
v1  the response adds throttling
v2  throttling happens after the response is sent
v3  adds the instance id
v4  flexible
v5  adds protocol type and name, both ways
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, bytes_, field, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = field(string)
    assignment: bytes = field(bytes_)


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="3+", nullable="3+", default=None)
    protocol_type: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16)
    protocol_type: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = field(bytes_)
