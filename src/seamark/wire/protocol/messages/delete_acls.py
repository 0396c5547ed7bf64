"""DeleteAcls (31): remove the access rules that match any of the filters.

v1  adds the pattern type; v0 is gone from Kafka and not spoken here
v2  flexible
v3  resource type 7, user
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int8, int16, int32, string


class DeleteAclsRequestFilter(Struct):
    resource_type_filter: int = field(int8)
    resource_name_filter: str | None = field(string, nullable="0+")
    pattern_type_filter: int = field(int8, default=3)
    principal_filter: str | None = field(string, nullable="0+")
    host_filter: str | None = field(string, nullable="0+")
    operation: int = field(int8)
    permission_type: int = field(int8)


class DeleteAclsRequest(Message, api_key=31, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsRequestFilter] = field(array(DeleteAclsRequestFilter))


class DeleteAclsResponseMatchingAcl(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    resource_type: int = field(int8)
    resource_name: str = field(string)
    pattern_type: int = field(int8, default=3)
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


class DeleteAclsResponseFilterResult(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    matching_acls: list[DeleteAclsResponseMatchingAcl] = field(array(DeleteAclsResponseMatchingAcl))


class DeleteAclsResponse(Message, api_key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: int = field(int32)
    filter_results: list[DeleteAclsResponseFilterResult] = field(array(DeleteAclsResponseFilterResult))
