"""SaslHandshake (17): agree on a mechanism.

v0  what follows on the connection are bare tokens, each with its length in front
v1  what follows are SaslAuthenticate requests
"""

from __future__ import annotations

from seamark.wire.schema.schema import Message, array, field, int16, string


class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    mechanism: str = field(string)


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    error_code: int = field(int16)
    mechanisms: list[str] = field(array(string))
