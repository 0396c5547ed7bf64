"""Addresses as users write them: ``HOST:PORT``, an IPv6 address in brackets."""

from __future__ import annotations

import errno
import ipaddress
from typing import NamedTuple

from seamark.counts import shortened
from seamark.errors import ConfigError

_LARGEST_PORT = 65_535


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(option: str, text: str) -> Address:
    """Read ``HOST:PORT``; ConfigError, which names ``option``, says what is wrong with it.

    >>> parse_address("listen", "[::1]:9092")
    Address(host='::1', port=9092)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > _LARGEST_PORT:
        raise ConfigError(option, shortened(text), "must be HOST:PORT with a port from 0 to 65535")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if is_bracketed is not (":" in host):
        raise ConfigError(option, shortened(text), "an IPv6 address, and only that, must be in brackets: [::1]:9092")
    if is_bracketed:
        host = host[1:-1]
    if not host:
        raise ConfigError(option, shortened(text), "must be HOST:PORT; use 0.0.0.0 for all addresses of this machine")
    return Address(host, int(port))


def why_not_bound(address: Address, error: OSError) -> str:
    """Why nothing can listen there.

    >>> why_not_bound(Address("::1", 80), OSError(errno.EADDRINUSE, "Address already in use"))
    'cannot listen on [::1]:80: the address is in use'
    """
    # Python adds what it attempted to some errors.
    reason = "the address is in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return f"cannot listen on {address}: {reason}"


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
