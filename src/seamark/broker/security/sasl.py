"""SASL: the conversation of one connection, and what its mechanisms have in common.

``SaslSession`` is the conversation: handshake, tokens, and from then on a known user, until the session's time is up.
Before the end of it only ApiVersions, SaslHandshake and SaslAuthenticate are served, in Kafka's order. A failure is
answered where the protocol has an answer, a moment later than it could be
(connection.failed.authentication.delay.ms, and more for an address that fails again and again), and ends the
connection. A session with a limited life (connections.max.reauth.ms) may start over on the same connection, as the same
user by the same mechanism.

A mechanism is an ``Exchange`` of tokens that ends with a known user or with a failure; one belongs to one connection
and one attempt. Failures carry two texts: what the client may read, in Kafka's words, and what the log gets; neither
ever holds a name or a secret that the client sent. PLAIN (RFC 4616) is here, SCRAM in ``scram``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from struct import Struct
from typing import Protocol

from seamark.broker.clock import BrokerClock
from seamark.broker.security.sessions import AccessRules, GuardedSession, TokenSender
from seamark.broker.security.users import Users
from seamark.errors import SeamarkError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeResponse
from seamark.wire.schema.schema import Message

PLAIN = "PLAIN"
_LENGTH = Struct(">i")
# No user, password or nonce needs more. sasl.server.max.receive.size allows half a megabyte, for mechanisms that are
# not offered here; to look for users and nonces in that much would stop everybody for 40 ms.
MAX_TOKEN_BYTES = 16_384
# An authenticated client that starts over more often than this is refused, as by Kafka.
_REAUTHENTICATION_SECONDS = 1.0


class AuthenticationFailed(SeamarkError):
    """``public`` is what the client is told; None means that it is told only that its credentials are invalid."""

    def __init__(self, reason: str, public: str | None = None) -> None:
        super().__init__(reason)
        self.public = public


class Exchange(Protocol):
    """The server's side of one mechanism."""

    @property
    def user(self) -> str | None:
        """The authenticated user; None until the exchange is complete."""

    def step(self, token: bytes) -> bytes:
        """Take the client's token and return the answer; AuthenticationFailed ends the exchange."""


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


class Stage(Enum):
    START = "expects ApiVersions or SaslHandshake"
    VERSIONS_KNOWN = "expects SaslHandshake"
    TOKENS = "expects SaslAuthenticate"
    DONE = "authenticated"
    FAILED = "failed"


class Logins(AccessRules, Protocol):
    """What the conversation goes by; a ``Gatekeeper`` is one."""

    @property
    def mechanisms(self) -> Sequence[str]: ...

    @property
    def max_reauth_ms(self) -> int: ...

    @property
    def sasl_max_receive_bytes(self) -> int: ...

    def new_exchange(self, mechanism: str) -> Exchange: ...

    def delay_after_failure(self, host: str) -> float: ...


class LoginRequest(Protocol):
    """A SaslHandshake or SaslAuthenticate under way."""

    @property
    def version(self) -> int: ...

    @property
    def connection(self) -> TokenSender: ...

    def reply(self, response: Message) -> None: ...

    def hang_up(self, reason: str) -> None: ...


class SaslSession(GuardedSession):
    __slots__ = (
        "_clock",
        "_exchange",
        "_expires",
        "_has_other_mechanism",
        "_is_reauthenticating",
        "_logins",
        "_mechanism",
        "_reauthenticated",
        "stage",
    )

    def __init__(self, logins: Logins) -> None:
        super().__init__(logins)
        self._logins = logins
        self.max_frame_bytes = logins.sasl_max_receive_bytes
        self.stage = Stage.START
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._clock: BrokerClock | None = None
        # On the broker's clock, when the session ends; None for one without end.
        self._expires: float | None = None
        self._is_reauthenticating = False
        self._reauthenticated: float | None = None
        self._has_other_mechanism = False

    def opened(self, host: str, ssl_object: object | None) -> None:  # noqa: ARG002
        # The user is who the principal is, whatever certificate was shown.
        super().opened(host, None)

    @property
    def is_known(self) -> bool:
        return self.stage is Stage.DONE

    def may_call(self, api_name: str) -> bool:
        stage = self.stage
        if stage is Stage.DONE:
            if self._expires is None or api_name == "SaslHandshake":
                return True
            assert self._clock is not None
            self.why_not = "after its session had expired"
            return self._clock.monotonic() <= self._expires
        if api_name == "SaslHandshake":
            return stage in (Stage.START, Stage.VERSIONS_KNOWN)
        if api_name == "SaslAuthenticate":
            return stage is Stage.TOKENS
        if api_name == "ApiVersions" and stage is Stage.START:
            self.stage = Stage.VERSIONS_KNOWN
            return True
        return False

    # -- what the handlers call

    def handshake(self, mechanism: str, context: LoginRequest) -> SaslHandshakeResponse | None:
        enabled = list(self._logins.mechanisms)
        if self.stage is Stage.DONE and not self._may_start_over(context.connection.node.clock):
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        if mechanism not in enabled:
            refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled)
            self._refuse(context, refusal, "requested a SASL mechanism that is not enabled")
            return None
        self._is_reauthenticating = self.stage is Stage.DONE
        self._has_other_mechanism = self._is_reauthenticating and mechanism != self._mechanism
        self.stage = Stage.TOKENS
        self._exchange = self._logins.new_exchange(mechanism)
        if not self._has_other_mechanism:
            self._mechanism = mechanism
        self.expects_token = context.version == 0
        return SaslHandshakeResponse(mechanisms=enabled)

    def authenticate(self, token: bytes, context: LoginRequest) -> SaslAuthenticateResponse | None:
        if self.stage is not Stage.TOKENS:
            return refuse_authentication(ErrorCode.ILLEGAL_SASL_STATE)
        try:
            answer, lifetime_ms = self._step(context.connection, token)
        except AuthenticationFailed as failure:
            if self._has_other_mechanism:
                context.hang_up(str(failure))
                return None
            refusal = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=failure.public or self._usual_refusal()
            )
            self._refuse(context, refusal, f"failed to authenticate with {self._mechanism}: {failure}")
            return None
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)

    def take_token(self, connection: TokenSender, token: bytes) -> None:
        if self.stage is Stage.FAILED:
            # What came behind the token that failed; the connection ends soon.
            return
        try:
            answer, _ = self._step(connection, token)
        except AuthenticationFailed as failure:
            # Between bare tokens there is no way to say why.
            reason = f"failed to authenticate with {self._mechanism}: {failure}"
            self._end_later(connection, lambda: _end(connection, reason))
        else:
            connection.send(_LENGTH.pack(len(answer)) + answer)

    # -- steps

    def _step(self, connection: TokenSender, token: bytes) -> tuple[bytes, int]:
        """Take a token; returns the answer, and once all is done the session's lifetime (0 while it is not,
        or has no end).
        """
        assert self._exchange is not None
        counts = self._logins.counts
        try:
            self._check_same_mechanism()
            _check_size(token)
            answer = self._exchange.step(token)
            user = self._exchange.user
            if user is None:
                return answer, 0
            self._check_same_user(f"User:{user}")
        except AuthenticationFailed:
            counts.failures += 1
            self.stage = Stage.FAILED
            self._exchange = None
            raise
        counts.successes += 1
        self._exchange = None
        self.become(f"User:{user}")
        self.stage = Stage.DONE
        self.expects_token = False
        node = connection.node
        connection.allow_frames_of(node.settings.socket_request_max_bytes)
        lifetime_ms = self._logins.max_reauth_ms
        if lifetime_ms > 0:
            self._clock = node.clock
            self._expires = node.clock.monotonic() + lifetime_ms / 1000
        return answer, max(0, lifetime_ms)

    def _check_same_mechanism(self) -> None:
        if self._has_other_mechanism:
            raise AuthenticationFailed("tried to re-authenticate with another mechanism")

    def _check_same_user(self, principal: str) -> None:
        if self._is_reauthenticating and principal != self.principal:
            before, after = (user.replace(":", ".", 1) for user in (self.principal, principal))
            raise AuthenticationFailed(
                "tried to re-authenticate as another user",
                public=f"Cannot change principals during re-authentication from {before}: {after}",
            )

    def _may_start_over(self, clock: BrokerClock) -> bool:
        if self._expires is None:
            return False
        now = clock.monotonic()
        if self._reauthenticated is not None and now - self._reauthenticated < _REAUTHENTICATION_SECONDS:
            return False
        self._reauthenticated = now
        return True

    def _usual_refusal(self) -> str:
        what = "re-authentication" if self._is_reauthenticating else "authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._mechanism}"

    def _refuse(self, context: LoginRequest, response: Message, reason: str) -> None:
        """Answer, and end the connection."""
        self.stage = Stage.FAILED

        def finish() -> None:
            if context.connection.is_open:
                context.reply(response)
            _end(context.connection, reason)

        self._end_later(context.connection, finish)

    def _end_later(self, connection: TokenSender, finish: Callable[[], None]) -> None:
        """Guessing many passwords in a row takes its time."""
        connection.node.timers.call_after(self._logins.delay_after_failure(self.host), finish)


def _end(connection: TokenSender, reason: str) -> None:
    """Close it; who did not wait for that is told of all the same."""
    if connection.is_open:
        connection.close(reason)
    else:
        about = f"the client at {connection.peer_host}:{connection.peer_port} "
        told = f"{reason}; it disconnected before the response"
        connection.node.log_limits.write(logging.WARNING, connection.peer_host, told, about=about)


def _check_size(token: bytes) -> None:
    if len(token) > MAX_TOKEN_BYTES:
        raise AuthenticationFailed(f"its token has {len(token)} bytes, more than {MAX_TOKEN_BYTES}")


def refuse_authentication(code: ErrorCode) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=code, error_message="SaslAuthenticate request received after successful authentication"
    )
