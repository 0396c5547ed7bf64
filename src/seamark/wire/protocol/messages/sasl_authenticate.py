"""SaslAuthenticate (36): one step of the mechanism's exchange.

v0  opaque bytes both ways
v1  the response adds the session's lifetime
v2  flexible
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, bytes_, field, int16, int64, string


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = field(bytes_)


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    auth_bytes: bytes = field(bytes_)
    session_lifetime_ms: int = field(int64, versions="1+", ignorable=True)
