"""DeleteGroups (42): remove empty groups with their offsets.

v0  a list of groups, an error code each
v1  throttling happens after the response is sent
v2  flexible
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int16, int32, string


class DeleteGroupsRequest(Message, api_key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = field(array(string))


class DeleteGroupsResponseResult(Struct):
    group_id: str = field(string)
    error_code: int = field(int16)


class DeleteGroupsResponse(Message, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(int32)
    results: list[DeleteGroupsResponseResult] = field(array(DeleteGroupsResponseResult))
