"""Every API that is served: what holds for all handlers alike."""

from __future__ import annotations

import pytest

from seamark.broker.api.endpoints import load_endpoints
from seamark.broker.net.endpoint import Endpoint
from seamark.wire.protocol.error_codes import ErrorCode


@pytest.mark.parametrize("endpoint", load_endpoints().values(), ids=lambda each: each.api.name)
def test_a_refusal_of_the_whole_request_can_be_written_in_every_version(endpoint: Endpoint) -> None:
    for version in endpoint.versions:
        response = endpoint.handler.refuse(endpoint.api.request(), version, ErrorCode.UNKNOWN_SERVER_ERROR)
        assert type(response) is endpoint.api.response
        response.encode(version)
