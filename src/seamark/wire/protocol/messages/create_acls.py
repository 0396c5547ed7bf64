"""CreateAcls (30): add access rules.

v1  adds the pattern type; v0 is gone from Kafka and not spoken here
v2  flexible
v3  resource type 7, user
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, field, int8, int16, int32, string


class CreateAclsRequestCreation(Struct):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    resource_pattern_type: int = field(int8, default=3)
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


class CreateAclsRequest(Message, api_key=30, versions="1-3", flexible="2+"):
    creations: list[CreateAclsRequestCreation] = field(array(CreateAclsRequestCreation))


class CreateAclsResponseResult(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")


class CreateAclsResponse(Message, api_key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: int = field(int32)
    results: list[CreateAclsResponseResult] = field(array(CreateAclsResponseResult))
