"""ApiVersions: what this broker serves; the first thing that most clients ask."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, ApiVersionsResponseApi

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "ApiVersions"
VERSIONS = "0-4"

# What a client may call itself and its version, from request version 3 on.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)


def handle(node: Services, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return refuse(request, context.version, ErrorCode.INVALID_REQUEST)
    served = [
        ApiVersionsResponseApi(api_key=key, min_version=endpoint.versions.first, max_version=endpoint.versions.last)
        for key, endpoint in node.endpoints.items()
    ]
    return ApiVersionsResponse(api_keys=served)


def refuse(request: ApiVersionsRequest, version: int, code: ErrorCode) -> ApiVersionsResponse:  # noqa: ARG001
    return ApiVersionsResponse(error_code=code)
