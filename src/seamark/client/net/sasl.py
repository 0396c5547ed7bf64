"""Authentication on a fresh connection: SaslHandshake names the mechanism, SaslAuthenticate carries its messages.

``authenticate`` gives the session's lifetime, after which the broker would end the connection (KIP-368); the connection
is then replaced by a new one before that, so a request never meets an expired session. No secret gets into an error.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Awaitable, Callable

from seamark.client.config.credentials import Credentials
from seamark.client.errors import AuthenticationFailed
from seamark.client.net.scram import ScramClient, ScramError
from seamark.counts import shortened
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from seamark.wire.schema.schema import Message


async def _off_the_loop(make: Callable[[bytes], bytes], challenge: bytes) -> bytes:
    """The broker says how often the password is hashed; all clients of the process share the loop's thread."""
    try:
        made = asyncio.get_running_loop().run_in_executor(None, make, challenge)
    except RuntimeError:
        # The program ends and there are no more threads to be had; what producers still hold wants this connection.
        return make(challenge)
    return await made


class SaslConversation:
    """The exchange with one broker; ``ask`` sends a request on its connection and gives the answer."""

    def __init__(self, address: str, credentials: Credentials, ask: Callable[..., Awaitable[Message]]) -> None:
        self._address = address
        self._credentials = credentials
        self._ask = ask
        self._lifetime_ms = 0

    async def authenticate(self) -> int:
        """Prove who we are; the answer is the session's lifetime in milliseconds, 0 for no limit."""
        mechanism = self._credentials.mechanism
        answer = await self._ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
        assert isinstance(answer, SaslHandshakeResponse)
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            offered = shortened(", ".join(answer.mechanisms[:20]), 300) or "none"
            raise self._failed(f"{code.name}, the broker offers {offered}")
        if mechanism == "PLAIN":
            await self._plain()
        else:
            await self._scram()
        return self._lifetime_ms

    async def _plain(self) -> None:
        user, password = self._credentials.username, self._credentials.password
        if "\0" in user or "\0" in password:
            raise self._failed("username and password must not hold a zero character")
        await self._step(f"\0{user}\0{password}".encode())

    async def _scram(self) -> None:
        nonce = base64.b64encode(secrets.token_bytes(24)).decode()
        user = self._credentials
        try:
            scram = ScramClient(user.mechanism, user.username, user.password, nonce)
            challenge = await self._step(scram.first_message())
            outcome = await self._step(await _off_the_loop(scram.final_message, challenge))
            scram.verify(outcome)
        except ScramError as error:
            raise self._failed(str(error)) from None

    async def _step(self, message: bytes) -> bytes:
        answer = await self._ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
        assert isinstance(answer, SaslAuthenticateResponse)
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            said = f": {shortened(answer.error_message, 300)}" if answer.error_message else ""
            raise self._failed(f"{code.name}{said} (user {self._credentials.username!r})")
        self._lifetime_ms = answer.session_lifetime_ms
        return answer.auth_bytes

    def _failed(self, reason: str) -> AuthenticationFailed:
        return AuthenticationFailed(self._address, self._credentials.mechanism, reason)
