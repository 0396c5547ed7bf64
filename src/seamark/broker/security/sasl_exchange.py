"""What all SASL mechanisms share: an exchange of tokens that ends with a known user or with a failure.

An exchange belongs to one connection and one attempt. Its failures carry two texts: what the client may read, in
Kafka's words, and what the log gets; neither ever holds a name or a secret that the client sent.
"""

from __future__ import annotations

from typing import Protocol

from seamark.errors import SeamarkError


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
