"""LeaveGroup (13): members go for good (A29).

v0  one member
v1  the response adds throttling
v2  throttling happens after the response is sent
v3  a list of members, by member id or instance id, with an error code each
v4  flexible
v5  adds the reason
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int16, int32, string


class LeaveGroupRequestMember(Struct):
    member_id: str = field(string)
    group_instance_id: str | None = field(string, nullable="0+", default=None)
    reason: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    group_id: str = field(string)
    member_id: str = field(string, versions="0-2")
    members: list[LeaveGroupRequestMember] = field(array(LeaveGroupRequestMember), versions="3+")


class LeaveGroupResponseMember(Struct):
    member_id: str = field(string)
    group_instance_id: str | None = field(string, nullable="0+")
    error_code: int = field(int16)


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16)
    members: list[LeaveGroupResponseMember] = field(array(LeaveGroupResponseMember), versions="3+")
