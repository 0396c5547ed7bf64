"""SASL PLAIN (RFC 4616): user and password in one token, answered with an empty one.

The sentences of refusals are those that Kafka's broker sends.
"""

from __future__ import annotations

from seamark.broker.security.sasl_exchange import AuthenticationFailed
from seamark.broker.security.users import Users

MECHANISM = "PLAIN"


class PlainExchange:
    def __init__(self, users: Users) -> None:
        self._users = users
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        parts = token.decode("utf-8", "replace").split("\0", 3)
        if len(parts) != 3:
            raise _refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise _refused("Authentication failed: username not specified")
        if not password:
            raise _refused("Authentication failed: password not specified")
        if not self._users.has_password(user, password):
            raise _refused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise _refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""


def _refused(sentence: str) -> AuthenticationFailed:
    return AuthenticationFailed(sentence, public=sentence)
