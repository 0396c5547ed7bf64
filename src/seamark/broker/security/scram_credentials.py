"""What is kept of a password for SCRAM (RFC 5802): salt, iterations and two keys, from which the password cannot be
had back.

Whoever holds the stored key can check a client's proof but not make one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

# Mechanism to hash, as hashlib calls it.
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# Kafka refuses less than this, and takes it by default.
ITERATIONS = 4096


class ScramCredential:
    """Shows nothing of itself when printed."""

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
