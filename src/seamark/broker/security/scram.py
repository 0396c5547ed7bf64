"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, without channel binding): two tokens each way.

The client proves that it knows the password without sending it, and the server proves that it holds what was made of
it. Everything that goes wrong is the same failure for the client, in whatever step it shows.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

from seamark.broker.security.sasl import AuthenticationFailed
from seamark.broker.security.users import HASHES, ScramCredential, Users

# gs2 header without channel binding, user, nonce; extensions may follow and are not looked at.
_FIRST = re.compile(
    r"(?P<header>n,(?:a=(?P<authorization>[^,\0]+))?,)(?P<bare>(?:m=[^,]+,)?n=(?P<user>[^,\0]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,]+)*)"
)
_FINAL = re.compile(
    r"(?P<without_proof>c=(?P<channel>[A-Za-z0-9/+=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,]+)*),p=(?P<proof>[A-Za-z0-9/+=]+)"
)
_BAD_ESCAPE = re.compile(r"=(?!2C|3D)")


def _new_nonce() -> str:
    return secrets.token_hex(18)


class ScramExchange:
    def __init__(self, mechanism: str, users: Users, make_nonce: Callable[[], str] = _new_nonce) -> None:
        self._hash_name = HASHES[mechanism]
        self._users = users
        self._make_nonce = make_nonce
        self._claimed = ""
        self._credential: ScramCredential | None = None
        self._header = ""
        self._nonce = ""
        # The client's and the server's first messages, which the proof covers.
        self._messages = ""
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        try:
            message = token.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("the SCRAM message is not UTF-8") from None
        if self.user is not None:
            raise AuthenticationFailed("a SCRAM message was sent after the final one")
        answer = self._finish(message) if self._nonce else self._begin(message)
        return answer.encode()

    def _begin(self, message: str) -> str:
        match = _FIRST.fullmatch(message)
        if match is None or _BAD_ESCAPE.search(match["user"]) or _BAD_ESCAPE.search(match["authorization"] or ""):
            raise AuthenticationFailed("the client's first SCRAM message is malformed")
        self._claimed = _unescaped(match["user"])
        if match["authorization"] is not None and _unescaped(match["authorization"]) != self._claimed:
            sentence = "Authentication failed: Client requested an authorization id that is different from username"
            raise AuthenticationFailed(sentence, public=sentence)
        credential = self._credential = self._users.credential(self._claimed, self._hash_name)
        self._header = match["header"]
        self._nonce = match["nonce"] + self._make_nonce()
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._messages = f"{match['bare']},{answer}"
        return answer

    def _finish(self, message: str) -> str:
        match = _FINAL.fullmatch(message)
        if match is None:
            raise AuthenticationFailed("the client's final SCRAM message is malformed")
        if _decoded(match["channel"]) != self._header.encode():
            raise AuthenticationFailed("the client's final SCRAM message is bound to another channel")
        if not hmac.compare_digest(match["nonce"], self._nonce):
            raise AuthenticationFailed("the nonce in the client's final SCRAM message does not match")
        credential = self._credential
        assert credential is not None
        signed = f"{self._messages},{match['without_proof']}".encode()
        signature = hmac.digest(credential.stored_key, signed, self._hash_name)
        proof = _decoded(match["proof"])
        if len(proof) != len(signature):
            raise AuthenticationFailed("the client's proof has the wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise AuthenticationFailed("the client's proof is wrong")
        self.user = self._claimed
        server_signature = hmac.digest(credential.server_key, signed, self._hash_name)
        return f"v={base64.b64encode(server_signature).decode()}"


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed("the client's SCRAM message contains invalid base64") from None
