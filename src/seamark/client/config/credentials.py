"""Who we say we are: username and password, from their own keys or from Kafka's JAAS text.

The password leaves this module only towards the mechanism that needs it; a ``Credentials`` shows only the name.
"""

from __future__ import annotations

import re

from seamark.errors import HIDDEN, ConfigError

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_LOGIN_MODULE = re.compile(
    r"\s*([\w.]+LoginModule)\s+(required|requisite|sufficient|optional)\b(.*?);?\s*\Z", re.DOTALL
)
_OPTION = re.compile(r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")


class Credentials:
    """A mechanism with its name and password."""

    __slots__ = ("mechanism", "password", "username")

    def __init__(self, mechanism: str, username: str, password: str) -> None:
        self.mechanism = mechanism
        self.username = username
        self.password = password

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism!r}, {self.username!r}, password=[hidden])"


def read_jaas(config: str) -> tuple[str | None, str | None]:
    """Username and password of a JAAS login line; the text itself never gets into an error.

    >>> read_jaas('org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p;";')
    ('u', 'p;')
    """
    login = _LOGIN_MODULE.match(config)
    if login is None:
        raise ConfigError("sasl.jaas.config", HIDDEN, 'must be: …LoginModule required username="…" password="…";')
    options: dict[str, str] = {}
    rest = login[3]
    position = 0
    while rest[position:].strip():
        entry = _OPTION.match(rest, position)
        if entry is None:
            raise ConfigError("sasl.jaas.config", HIDDEN, f"option {len(options) + 1} is not name=value")
        value = next(part for part in entry.groups()[1:] if part is not None)
        options[entry[1]] = re.sub(r"\\(.)", r"\1", value)
        position = entry.end()
    return options.get("username"), options.get("password")
