"""A listener: the address that a node binds, and the address that clients are told to connect to.

A client learns the address of the listener it came in by and of no other (B16, B20). Where a listener is bound to all
addresses and nothing is advertised, a client is told the one that it reached the broker by.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from seamark.errors import ConfigError

_ALL_ADDRESSES = frozenset({"0.0.0.0", "::", ""})  # noqa: S104


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


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
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(option: str, text: str) -> Address:
    """Read ``HOST:PORT``; an IPv6 address stands in brackets.

    >>> parse_address("listen", "[::1]:9092")
    Address(host='::1', port=9092)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65_535:
        raise ConfigError(option, text, "it must be HOST:PORT with a port of 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(option, text, "an IPv6 address stands in brackets, as in [::1]:9092")
    if not host:
        raise ConfigError(option, text, "it must be HOST:PORT; 0.0.0.0 stands for all addresses of this machine")
    return Address(host, int(port))


def parse_advertised(text: str) -> Address:
    """Read one entry of ``advertised.listeners``: ``NAME://HOST:PORT``."""
    _, mark, address = text.partition("://")
    if not mark:
        raise ConfigError("advertised.listeners", text, "it must be NAME://HOST:PORT")
    return parse_address("advertised.listeners", address.split(",")[0])
