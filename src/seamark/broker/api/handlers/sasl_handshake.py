"""SaslHandshake: the client names the mechanism it wants to authenticate by.

A listener without SASL has no such conversation: ILLEGAL_SASL_STATE, as Kafka answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.broker.security.sasl import SaslSession
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "SaslHandshake"
VERSIONS = "0-1"


def handle(
    node: Services,  # noqa: ARG001
    request: SaslHandshakeRequest,
    context: RequestContext,
) -> SaslHandshakeResponse | None:
    session = context.connection.session
    if isinstance(session, SaslSession):
        return session.handshake(request.mechanism, context)
    return refuse(request, context.version, ErrorCode.ILLEGAL_SASL_STATE)


def refuse(request: SaslHandshakeRequest, version: int, code: ErrorCode) -> SaslHandshakeResponse:  # noqa: ARG001
    return SaslHandshakeResponse(error_code=code)
