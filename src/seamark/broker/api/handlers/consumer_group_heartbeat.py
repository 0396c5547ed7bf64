"""ConsumerGroupHeartbeat: the newer group protocol, which is refused as Kafka does where it is turned off.

It is advertised only to be refused: a client that does not find the API at all may wait for ever without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "ConsumerGroupHeartbeat"
VERSIONS = "0-1"

NOT_SERVED = "This broker serves group.protocol=classic only."


def handle(
    node: Services,  # noqa: ARG001
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
) -> ConsumerGroupHeartbeatResponse:
    return refuse(request, context.version, ErrorCode.UNSUPPORTED_VERSION)


def refuse(
    request: ConsumerGroupHeartbeatRequest,  # noqa: ARG001
    version: int,  # noqa: ARG001
    code: ErrorCode,
) -> ConsumerGroupHeartbeatResponse:
    message = NOT_SERVED if code is ErrorCode.UNSUPPORTED_VERSION else None
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)
