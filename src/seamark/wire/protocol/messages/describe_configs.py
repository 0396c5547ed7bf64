"""DescribeConfigs (32): settings of topics and brokers.

v1  source and synonyms of each setting; v0 is gone from Kafka and not spoken here
v2  throttling happens after the response is sent
v3  adds type and documentation, the latter on request
v4  flexible
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, field, int8, int16, int32, string


class DescribeConfigsRequestResource(Struct):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configuration_keys: list[str] | None = field(array(string), nullable="0+")


class DescribeConfigsRequest(Message, api_key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsRequestResource] = field(array(DescribeConfigsRequestResource))
    include_synonyms: bool = field(boolean)
    include_documentation: bool = field(boolean, versions="3+")


class DescribeConfigsResponseSynonym(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="0+")
    source: int = field(int8)


class DescribeConfigsResponseConfig(Struct):
    name: str = field(string)
    value: str | None = field(string, nullable="0+")
    read_only: bool = field(boolean)
    config_source: int = field(int8, default=-1)
    is_sensitive: bool = field(boolean)
    synonyms: list[DescribeConfigsResponseSynonym] = field(array(DescribeConfigsResponseSynonym))
    config_type: int = field(int8, versions="3+", ignorable=True)
    documentation: str | None = field(string, versions="3+", nullable="3+", ignorable=True)


class DescribeConfigsResponseResult(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    resource_type: int = field(int8)
    resource_name: str = field(string)
    configs: list[DescribeConfigsResponseConfig] = field(array(DescribeConfigsResponseConfig))


class DescribeConfigsResponse(Message, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = field(int32)
    results: list[DescribeConfigsResponseResult] = field(array(DescribeConfigsResponseResult))
