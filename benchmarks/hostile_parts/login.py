"""Connections to the attacked broker that log in first, as the well-behaved and the hostile ones do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.broker_driver import Client

HONEST = "honest"
HOSTILE = "mallory"
# Each kind of attack is a user of its own.
ATTACKS = ("worst", "half", "churn", "slow", "logins", "bombs", "metadata", "hoard")


def attacker(kind: str) -> str:
    return f"{HOSTILE}-{kind}"


USERS = (HONEST, HOSTILE, *map(attacker, ATTACKS))


def password_of(user: str) -> str:
    return f"{user}-secret"


@dataclass(frozen=True)
class Address:
    """Where the broker is; ``user`` is empty for one that asks for no login."""

    bootstrap: str
    user: str = ""

    def connect(self, timeout: float = 30.0) -> Client:
        client = Client(self.bootstrap, client_id=self.user or "nobody", timeout=timeout)
        try:
            self._log_in(client)
        except BaseException:
            client.close()
            raise
        return client

    def _log_in(self, client: Client) -> None:
        if not self.user:
            return
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = f"\0{self.user}\0{password_of(self.user)}".encode()
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=token), 1)
        if answer.error_code:
            raise RuntimeError(f"{self.user} was not let in: {answer.error_message}")

    def settings(self) -> dict[str, str]:
        """The same for a Kafka client."""
        where = {"bootstrap.servers": self.bootstrap}
        if not self.user:
            return where
        login = {"sasl.mechanism": "PLAIN", "sasl.username": self.user, "sasl.password": password_of(self.user)}
        return {**where, "security.protocol": "SASL_PLAINTEXT", **login}


def login_options(place: Path) -> tuple[str, ...]:
    """Options of a broker that lets these users in, and nobody else."""
    users = place / "users"
    users.write_text("".join(f"{user}:{password_of(user)}\n" for user in USERS))
    users.chmod(0o600)
    return ("sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256", f"seamark.users.file={users}")
