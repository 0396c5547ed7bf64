"""SaslAuthenticate: one token of the mechanism that the handshake agreed on, and the token that answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.broker.security.sasl import SaslSession, refuse_authentication
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from seamark.broker.api.services import Services
    from seamark.broker.net.context import RequestContext

API = "SaslAuthenticate"
VERSIONS = "0-2"


def handle(
    node: Services,  # noqa: ARG001
    request: SaslAuthenticateRequest,
    context: RequestContext,
) -> SaslAuthenticateResponse | None:
    session = context.connection.session
    if isinstance(session, SaslSession):
        return session.authenticate(bytes(request.auth_bytes), context)
    return refuse_authentication(ErrorCode.ILLEGAL_SASL_STATE)


def refuse(request: SaslAuthenticateRequest, version: int, code: ErrorCode) -> SaslAuthenticateResponse:  # noqa: ARG001
    return SaslAuthenticateResponse(error_code=code)
