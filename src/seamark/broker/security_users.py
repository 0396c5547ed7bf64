"""The users that may log in, and nothing of their passwords that could be read back.

An unknown user is given a credential too, one that no password fits: the same salt each time it is asked for, the
same work, the same refusal. So neither the answers nor their time tell which users there are.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Mapping

from seamark.broker.scram_credentials import HASHES, ITERATIONS, ScramCredential
from seamark.errors import ConfigError

_PLAIN_HASH = "sha256"


class Users:
    """Owned by the event loop's thread; built once from what the broker was started with."""

    def __init__(self, passwords: Mapping[str, str], mechanisms: Iterable[str]) -> None:
        wanted = {HASHES.get(mechanism, _PLAIN_HASH) for mechanism in mechanisms}
        self._secret = secrets.token_bytes(32)
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        for user, password in passwords.items():
            check_user(user, password)
            for hash_name in wanted:
                self._credentials[user, hash_name] = ScramCredential.derive(hash_name, password)

    def __repr__(self) -> str:
        return f"<{len({user for user, _ in self._credentials})} users>"

    def credential(self, user: str, hash_name: str) -> ScramCredential:
        """Return what the user's proof is checked against."""
        return self._credentials.get((user, hash_name)) or self._made_up(user, hash_name)

    def has_password(self, user: str, password: str) -> bool:
        is_right = self.credential(user, _PLAIN_HASH).is_of(password)
        return is_right and (user, _PLAIN_HASH) in self._credentials

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
        raise ConfigError("users", user, "a user's name is a text without a NUL")
    if not isinstance(password, str) or not password or "\0" in password:
        raise ConfigError("users", user, "the user's password must be a text that is not empty and has no NUL")
