"""JoinGroup (11): enter a rebalance of a classic group (A23 to A26).

v0  group, session timeout, member, protocols; the session timeout also bounds the rebalance
v1  adds the rebalance timeout
v2  the response adds throttling
v3  throttling happens after the response is sent
v4  a first-time joiner is sent away with MEMBER_ID_REQUIRED and an id to come back with
v5  adds the instance id
v6  flexible
v7  the response adds the protocol type; the protocol name may be null
v8  adds the reason
v9  the response can tell the leader to skip the assignment
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, bytes_, field, int16, int32, string


class JoinGroupRequestProtocol(Struct):
    name: str = field(string)
    metadata: bytes = field(bytes_)


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    group_id: str = field(string)
    session_timeout_ms: int = field(int32)
    rebalance_timeout_ms: int = field(int32, versions="1+", default=-1, ignorable=True)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="5+", nullable="5+", default=None)
    protocol_type: str = field(string)
    protocols: list[JoinGroupRequestProtocol] = field(array(JoinGroupRequestProtocol))
    reason: str | None = field(string, versions="8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = field(bytes_)


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = field(int32, versions="2+", ignorable=True)
    error_code: int = field(int16)
    generation_id: int = field(int32, default=-1)
    protocol_type: str | None = field(string, versions="7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = field(string, nullable="7+")
    leader: str = field(string)
    skip_assignment: bool = field(boolean, versions="9+")
    member_id: str = field(string)
    members: list[JoinGroupResponseMember] = field(array(JoinGroupResponseMember))
