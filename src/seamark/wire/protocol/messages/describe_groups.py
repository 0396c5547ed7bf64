"""DescribeGroups (15): state and members of classic groups.

v0  state, protocol and members
v1  the response adds throttling
v2  throttling happens after the response is sent
v3  authorized operations on request
v4  adds instance ids
v5  flexible
v6  an unknown group is GROUP_ID_NOT_FOUND, with a message, where it used to be a dead one
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, bytes_, field, int16, int32, string


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    groups: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean, versions="3+")


class DescribeGroupsResponseMember(Struct):
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="4+", nullable="4+", default=None, ignorable=True)
    client_id: str = field(string)
    client_host: str = field(string)
    member_metadata: bytes = field(bytes_)
    member_assignment: bytes = field(bytes_)


class DescribeGroupsResponseGroup(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, versions="6+", nullable="6+", default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    protocol_type: str = field(string)
    protocol_data: str = field(string)
    members: list[DescribeGroupsResponseMember] = field(array(DescribeGroupsResponseMember))
    authorized_operations: int = field(int32, versions="3+", default=-(1 << 31))


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    groups: list[DescribeGroupsResponseGroup] = field(array(DescribeGroupsResponseGroup))
