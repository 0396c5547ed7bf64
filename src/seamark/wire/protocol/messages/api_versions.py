"""ApiVersions (18): which requests, in which versions, the broker answers.

A broker that does not know the version asked for answers in v0 with UNSUPPORTED_VERSION, so v0 must always be readable;
for the same reason the response header never becomes flexible.

v0  the request is empty
v1  the response adds throttling
v2  throttling happens after the response is sent
v3  flexible; the client names itself; features appear as tagged fields
v4  a supported feature may start at level 0
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, Struct, array, boolean, field, int16, int32, int64, string


class ApiVersionsRequest(Message, api_key=18, versions="0-4", flexible="3+"):
    client_software_name: str = field(string, versions="3+", ignorable=True)
    client_software_version: str = field(string, versions="3+", ignorable=True)


class ApiVersionsResponseApi(Struct):
    api_key: int = field(int16)
    min_version: int = field(int16)
    max_version: int = field(int16)


class ApiVersionsResponseSupportedFeature(Struct):
    name: str = field(string)
    min_version: int = field(int16)
    max_version: int = field(int16)


class ApiVersionsResponseFinalizedFeature(Struct):
    name: str = field(string)
    max_version_level: int = field(int16)
    min_version_level: int = field(int16)


class ApiVersionsResponse(Message, api_key=18, versions="0-4", flexible="3+"):
    error_code: int = field(int16)
    api_keys: list[ApiVersionsResponseApi] = field(array(ApiVersionsResponseApi))
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    supported_features: list[ApiVersionsResponseSupportedFeature] = field(
        array(ApiVersionsResponseSupportedFeature), versions="3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = field(int64, versions="3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[ApiVersionsResponseFinalizedFeature] = field(
        array(ApiVersionsResponseFinalizedFeature), versions="3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = field(boolean, versions="3+", tag=3, ignorable=True)
