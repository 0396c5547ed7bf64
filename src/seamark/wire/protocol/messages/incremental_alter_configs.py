"""IncrementalAlterConfigs (44): change single settings; operation 0 sets, 1 deletes, 2 appends, 3 subtracts.

v0  resources with their changes, a dry run
v1  flexible
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, field, int8, int16, int32, string


class IncrementalAlterConfigsRequestConfig(Struct):
    name: str = field(string)
    config_operation: int = field(int8)
    value: str | None = field(string, nullable="0+")


class IncrementalAlterConfigsRequestResource(Struct):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[IncrementalAlterConfigsRequestConfig] = field(array(IncrementalAlterConfigsRequestConfig))


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    resources: list[IncrementalAlterConfigsRequestResource] = field(array(IncrementalAlterConfigsRequestResource))
    validate_only: bool = field(boolean)


class IncrementalAlterConfigsResponseResource(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    resource_type: int = field(int8)
    resource_name: str = field(string)


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = field(int32)
    responses: list[IncrementalAlterConfigsResponseResource] = field(array(IncrementalAlterConfigsResponseResource))
