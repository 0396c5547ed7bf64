"""A listener: the address that a node binds, and the address that clients are told to connect to.

A client learns the address of the listener it came in by and of no other (B16, B20). Where a listener is bound to all
addresses and nothing is advertised, a client is told the one that it reached the broker by.
"""

from __future__ import annotations

from seamark.addresses import Address, is_loopback, parse_address
from seamark.errors import ConfigError

_ALL_ADDRESSES = frozenset({"0.0.0.0", "::", ""})  # noqa: S104


class Listener:
    """``port`` is the bound one once the node listens; with 0 the system picks a free one."""

    __slots__ = ("advertised", "host", "name", "port")

    def __init__(self, name: str, host: str, port: int, advertised: Address | None = None) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.advertised = advertised

    def address_for(self, reached_by: str) -> Address:
        """Return what a client is told that reached the broker by that address."""
        if self.advertised is not None:
            return self.advertised
        if self.host in _ALL_ADDRESSES:
            return Address(reached_by or "localhost", self.port)
        return Address(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


def parse_advertised(text: str) -> Address:
    """Read one entry of ``advertised.listeners``: ``NAME://HOST:PORT``."""
    _, mark, address = text.partition("://")
    if not mark:
        raise ConfigError("advertised.listeners", text, "it must be NAME://HOST:PORT")
    return parse_address("advertised.listeners", address.split(",")[0])
