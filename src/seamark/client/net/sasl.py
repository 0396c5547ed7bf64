"""Authentication on a fresh connection: SaslHandshake names the mechanism, SaslAuthenticate carries its messages.

``authenticate`` gives the session's lifetime, after which the broker would end the connection (KIP-368); the connection
is then replaced by a new one before that, so a request never meets an expired session. No secret gets into an error.

SCRAM, the client's half (RFC 5802, RFC 7677), proves to know the password without sending it. It is a pure exchange of
texts: ``first_message``, ``final_message`` for the server's challenge, then ``verify`` for the server's own proof. The
server must prove that it knows the password's key too; one that does not is an impostor, and nothing is sent to it. The
nonce is passed in.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import stringprep
import unicodedata
from collections.abc import Awaitable, Callable

from seamark.client.config.credentials import Credentials
from seamark.client.errors import AuthenticationFailed
from seamark.counts import shortened
from seamark.wire.protocol.error_codes import ErrorCode, error_code
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from seamark.wire.schema.schema import Message

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# Kafka refuses fewer than 4096 iterations for both, and more than 16,384 when a password is set. Other brokers may ask
# for more; a million take about half a second of a core.
LEAST_ITERATIONS = 4096
MOST_ITERATIONS = 1_000_000
_NOT_TAKEN = f"outside the range that this client accepts, {LEAST_ITERATIONS:,} to {MOST_ITERATIONS:,}"
# n,, : no channel binding, no other identity to act for.
_NO_BINDING = "n,,"


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
            raise self._failed(f"{code.name}, the broker supports {offered}")
        if mechanism == "PLAIN":
            await self._plain()
        else:
            await self._scram()
        return self._lifetime_ms

    async def _plain(self) -> None:
        user, password = self._credentials.username, self._credentials.password
        if "\0" in user or "\0" in password:
            raise self._failed("username and password must not contain a NUL character")
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


class ScramError(Exception):
    """The exchange cannot go on; the text says why and holds no secret."""


class ScramClient:
    """One exchange."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = prepare(password).encode()
        self._nonce = nonce
        name = prepare(username).replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._server_signature = b""

    def first_message(self) -> bytes:
        return (_NO_BINDING + self._first_bare).encode()

    def final_message(self, challenge: bytes) -> bytes:
        """The proof for the server's nonce, salt and iteration count; slow on purpose, so not for an event loop."""
        server_first = _text(challenge)
        fields = _fields(server_first)
        nonce, salt, iterations = self._read_challenge(fields)
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._mac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        binding = base64.b64encode(_NO_BINDING.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        signed = ",".join((self._first_bare, server_first, without_proof)).encode()
        signature = self._mac(stored_key, signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._mac(self._mac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, outcome: bytes) -> None:
        """Check the server's own proof."""
        fields = _fields(_text(outcome))
        if "e" in fields:
            raise ScramError(f"the broker returned the error {fields['e']!r}")
        signature = _from_base64(fields.get("v", ""), "the broker's signature")
        if not self._server_signature or not hmac.compare_digest(signature, self._server_signature):
            raise ScramError("the broker's signature is wrong: it does not know the password")

    def _read_challenge(self, fields: dict[str, str]) -> tuple[str, bytes, int]:
        if "e" in fields:
            raise ScramError(f"the broker returned the error {fields['e']!r}")
        if "m" in fields:
            raise ScramError("the broker requires an unknown extension")
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("the broker's nonce does not start with the client's nonce")
        salt = _from_base64(fields.get("s", ""), "the salt")
        if not salt:
            raise ScramError("the broker sent no salt")
        count = fields.get("i", "")
        # The length first: Python is slow, and refuses, to read numbers of thousands of digits.
        if not (count.isascii() and count.isdigit()) or len(count) > len(str(MOST_ITERATIONS)):
            raise ScramError(f"the iteration count {count[:20]!r} is {_NOT_TAKEN}")
        if not LEAST_ITERATIONS <= int(count) <= MOST_ITERATIONS:
            raise ScramError(f"the iteration count {count} is {_NOT_TAKEN}")
        return nonce, salt, int(count)

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def prepare(text: str) -> str:
    r"""SASLprep (RFC 4013): spaces made plain, invisible characters dropped, compatibility forms folded.

    >>> prepare("I\u00adX"), prepare("\u2168"), prepare("pass\u00a0word")
    ('IX', 'IX', 'pass word')
    """
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    folded = unicodedata.normalize("NFKC", mapped)
    prohibited = (
        stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
        stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
        stringprep.in_table_c9,
    )  # fmt: skip
    if any(rule(character) for character in folded for rule in prohibited):
        raise ScramError("username or password contains a character that SASLprep forbids")
    return folded


def _text(message: bytes) -> str:
    try:
        return bytes(message).decode()
    except UnicodeDecodeError:
        raise ScramError("the broker's message is not UTF-8") from None


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or len(name) != 1 or name in fields:
            raise ScramError("the broker's message is not a SCRAM message")
        fields[name] = value
    return fields


def _from_base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramError(f"{what} is not base64") from None
