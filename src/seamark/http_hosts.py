"""By which names a page may be asked for: a site that points its own name at this machine must not read our pages.

A browser sends the name that it believes to talk to in the ``Host`` header. A page of another site can have its name
resolved to our address (DNS rebinding) and would then count as ours; but it cannot have an address for a name. So an IP
address is always taken, and ``localhost``, and the name that is listened at; all other names must be given.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from seamark.counts import shortened
from seamark.errors import ConfigError

# As browsers send it: names of other scripts come in their form that begins with xn--.
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?")


class AllowedHosts:
    """``listen`` is the host that is listened at, ``names`` those that are given."""

    def __init__(self, listen: str, names: Iterable[str] = ()) -> None:
        self.given = frozenset(map(_checked, names))
        self._names = self.given | {"localhost", listen.lower()}

    def allow(self, header: str | None) -> bool:
        """Whether a request with this ``Host`` is answered; one without it comes from no browser.

        >>> hosts = AllowedHosts("127.0.0.1", ["board.example.org"])
        >>> [hosts.allow(each) for each in ("127.0.0.1:80", "[::1]:80", "Board.example.org", "evil.example.org", None)]
        [True, True, True, False, True]
        """
        if not header:
            return True
        host = _without_port(header).lower().removesuffix(".")
        return host in self._names or _is_address(host)


def _checked(name: str) -> str:
    if "*" in name:
        raise ConfigError(
            "allowed host", shortened(name), "any website could resolve such a name to this machine and read the "
            "pages: give full host names, such as board.example.org",
        )  # fmt: skip
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "allowed host", shortened(name), "must be a host name without a port, such as board.example.org"
        )
    return name.lower().removesuffix(".")


def _without_port(header: str) -> str:
    host, colon, port = header.rpartition(":")
    return host if colon and (port.isdecimal() or not port) and not header.endswith("]") else header


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
