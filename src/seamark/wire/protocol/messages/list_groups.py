"""ListGroups (16): the groups that a broker coordinates.

v0  ids and protocol types
v1  the response adds throttling
v2  throttling happens after the response is sent
v3  flexible
v4  adds states, to filter by and to read
v5  adds types, to filter by and to read
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int16, int32, string


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = field(array(string), versions="4+")
    types_filter: list[str] = field(array(string), versions="5+")


class ListGroupsResponseGroup(Struct):
    group_id: str = field(string)
    protocol_type: str = field(string)
    group_state: str = field(string, versions="4+", ignorable=True)
    group_type: str = field(string, versions="5+", ignorable=True)


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16)
    groups: list[ListGroupsResponseGroup] = field(array(ListGroupsResponseGroup))
