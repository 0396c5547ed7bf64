"""The users that may log in, and nothing of their passwords that could be read back.

An unknown user is given a credential too, one that no password fits: the same salt each time it is asked for, the
same work, the same refusal. So neither the answers nor their time tell which users there are.

No login costs more than a few hashes: strangers can ask for as many as they like, on the thread that serves everybody.
The slow hash of SCRAM is for its client and for the start. Passwords sent as they are (PLAIN) are compared by a digest
under a key that lives and dies with the process.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping

from seamark.errors import ConfigError

# Mechanism to hash, as hashlib calls it.
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# Kafka refuses less than this, and takes it by default.
ITERATIONS = 4096


class ScramCredential:
    """What is kept of a password for SCRAM (RFC 5802): salt, iterations and two keys, from which it cannot be had back.

    Whoever holds the stored key can check a client's proof but not make one. Shows nothing of itself when printed.
    """

    __slots__ = ("hash_name", "iterations", "salt", "server_key", "stored_key")

    def __init__(self, hash_name: str, salt: bytes, iterations: int, stored_key: bytes, server_key: bytes) -> None:
        self.hash_name = hash_name
        self.salt = salt
        self.iterations = iterations
        self.stored_key = stored_key
        self.server_key = server_key

    def __repr__(self) -> str:
        return f"<credential for {self.hash_name}>"

    @staticmethod
    def derive(
        hash_name: str, password: str, salt: bytes | None = None, iterations: int = ITERATIONS
    ) -> ScramCredential:
        salt = secrets.token_bytes(24) if salt is None else salt
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        stored_key = hashlib.new(hash_name, client_key).digest()
        return ScramCredential(hash_name, salt, iterations, stored_key, hmac.digest(salted, b"Server Key", hash_name))


_PLAIN = "PLAIN"


class Users:
    """Owned by the event loop's thread; built once from what the broker was started with."""

    def __init__(self, passwords: Mapping[str, str], mechanisms: Iterable[str]) -> None:
        self._secret = secrets.token_bytes(32)
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._plain: dict[str, bytes] = {}
        # What the digest of no password is equal to.
        self._of_nobody = secrets.token_bytes(32)
        wanted = set(mechanisms)
        for user, password in passwords.items():
            check_user(user, password)
            for hash_name in sorted(HASHES[mechanism] for mechanism in wanted - {_PLAIN}):
                self._credentials[user, hash_name] = ScramCredential.derive(hash_name, password)
            if _PLAIN in wanted:
                self._plain[user] = self._digest(user, password)
        self._count = len(passwords)

    def __repr__(self) -> str:
        return f"<{self._count} users>"

    def credential(self, user: str, hash_name: str) -> ScramCredential:
        """Return what the user's proof is checked against."""
        # Made for those too who have one: it must take as long.
        made_up = self._made_up(user, hash_name)
        return self._credentials.get((user, hash_name), made_up)

    def has_password(self, user: str, password: str) -> bool:
        return hmac.compare_digest(self._digest(user, password), self._plain.get(user, self._of_nobody))

    def _digest(self, user: str, password: str) -> bytes:
        return hmac.digest(self._secret, f"{user}\0{password}".encode(), "sha256")

    def _made_up(self, user: str, hash_name: str) -> ScramCredential:
        name = user.encode("utf-8", "replace")
        salt, stored_key, server_key = (
            hmac.digest(self._secret, purpose + hash_name.encode() + name, hash_name)
            for purpose in (b"salt", b"stored", b"server")
        )
        return ScramCredential(hash_name, salt[:24], ITERATIONS, stored_key, server_key)


def check_user(user: object, password: object) -> None:
    """Refuse what cannot be a user; the sentence never holds the password."""
    if not isinstance(user, str) or not user or "\0" in user:
        raise ConfigError("users", user, "a user name must be a string without NUL characters")
    if not isinstance(password, str) or not password or "\0" in password:
        raise ConfigError("users", user, "a password must be a non-empty string without NUL characters")
