"""Kafka's security keys, from a server.properties, as the ``Security`` that they mean.

Keys and certificates are PEM. What a key and the ``security`` argument both say is a contradiction, and refused. The
sentences of errors name keys, never their values: most of those are secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from seamark.broker.security.security import Security
from seamark.broker.security.tls import Tls
from seamark.counts import shortened
from seamark.errors import HIDDEN, ConfigError

_JAAS = re.compile(r"(?:listener\.name\.[^.]+\.)?(?:plain|scram-sha-256|scram-sha-512)?\.?sasl\.jaas\.config")
_JAAS_USER = re.compile(r'user_([^\s="]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_KEYSTORE_KEYS = (
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.client.auth",
    "ssl.enabled.protocols",
)
_PLAIN_KEYS = frozenset(
    {
        *_KEYSTORE_KEYS,
        "ssl.keystore.type",
        "ssl.truststore.type",
        "sasl.enabled.mechanisms",
        "sasl.server.max.receive.size",
        "connections.max.reauth.ms",
        "connection.failed.authentication.delay.ms",
        # About brokers among themselves and their controllers, of which there is only one here.
        "sasl.mechanism.inter.broker.protocol",
        "sasl.mechanism.controller.protocol",
        "security.inter.broker.protocol",
        "authorizer.class.name",
        "super.users",
        "allow.everyone.if.no.acl.found",
        "seamark.users.file",
        "seamark.metrics.listen",
        "seamark.metrics.allowed.hosts",
        "seamark.log.format",
        "offsets.zookeeper.connect",
    }
)


class _SettingKeys:
    """The keys that are not in ``setting_keys``; those of JAAS have the listener's name in them."""

    def __contains__(self, name: object) -> bool:
        return name in _PLAIN_KEYS or (isinstance(name, str) and _JAAS.fullmatch(name) is not None)


SETTING_KEYS = _SettingKeys()


def forget_secrets(given: dict[str, object]) -> None:
    """Take passwords and keys out of settings that have been read."""
    for name in given:
        if name in ("ssl.keystore.key", "ssl.key.password", "ssl.keystore.certificate.chain") or _JAAS.fullmatch(name):
            given[name] = HIDDEN


def with_settings(security: Security, given: Mapping[str, object]) -> Security:
    """Return ``security`` with what the keys add to it."""
    texts = {name: _text(name, value) for name, value in given.items() if name in SETTING_KEYS}
    changes: dict[str, object] = {}
    if any(name in texts for name in _KEYSTORE_KEYS):
        changes["tls"] = _tls(texts)
    users = _users(texts)
    if users:
        changes["users"] = users
    if "sasl.enabled.mechanisms" in texts:
        changes["mechanisms"] = _items(texts["sasl.enabled.mechanisms"], ",")
    if texts.get("authorizer.class.name"):
        changes["acls"] = ()
    if "super.users" in texts:
        changes["super_users"] = _items(texts["super.users"], ";")
    if "allow.everyone.if.no.acl.found" in texts:
        changes["allow_everyone_if_no_acl_found"] = _is_true(texts, "allow.everyone.if.no.acl.found")
    for name, attribute in (
        ("connections.max.reauth.ms", "max_reauth_ms"),
        ("connection.failed.authentication.delay.ms", "failed_authentication_delay_ms"),
        ("sasl.server.max.receive.size", "sasl_max_receive_bytes"),
    ):
        if name in texts:
            changes[attribute] = _number(name, texts[name])
    for attribute in ("tls", "users", "mechanisms"):
        if attribute in changes and getattr(security, attribute):
            raise ConfigError(attribute, HIDDEN, "it is set both in the settings and in the security argument")
    if "acls" in changes and security.acls is not None:
        del changes["acls"]
    return replace(security, **changes) if changes else security  # type: ignore[arg-type]


def _tls(texts: Mapping[str, str]) -> Tls:
    for kind in ("keystore", "truststore"):
        if f"ssl.{kind}.location" in texts and texts.get(f"ssl.{kind}.type") != "PEM":
            raise ConfigError(f"ssl.{kind}.type", texts.get(f"ssl.{kind}.type", "JKS"), "only PEM stores are supported")
    certificate = texts.get("ssl.keystore.certificate.chain") or texts.get("ssl.keystore.location")
    if not certificate:
        raise ConfigError("ssl.keystore.location", "", "a TLS listener requires a certificate and its key")
    protocols = _items(texts.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"), ",")
    return Tls(
        certificate,
        texts.get("ssl.keystore.key"),
        texts.get("ssl.key.password"),
        texts.get("ssl.truststore.certificates") or texts.get("ssl.truststore.location"),
        texts.get("ssl.client.auth", "none"),
        protocols,
    )


def _users(texts: Mapping[str, str]) -> dict[str, str]:
    """The users of all JAAS texts (``user_NAME="password"``) and of the file."""
    users: dict[str, str] = {}
    for name, text in texts.items():
        if _JAAS.fullmatch(name):
            for user, quoted, bare in _JAAS_USER.findall(text):
                users[user] = re.sub(r"\\(.)", r"\1", quoted) if quoted else bare
    if "seamark.users.file" in texts:
        path = Path(texts["seamark.users.file"])
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise ConfigError("seamark.users.file", str(path), "the file cannot be read") from None
        users_of_file: dict[str, int] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            user, colon, password = (part.strip() for part in line.partition(":"))
            if not colon:
                raise ConfigError("seamark.users.file", str(path), f"line {number} must be USER:PASSWORD")
            if user in users_of_file:
                # Which of the two passwords is meant cannot be known.
                reason = f"line {number} repeats the user {shortened(user)!r} of line {users_of_file[user]}"
                raise ConfigError("seamark.users.file", str(path), reason)
            if users.get(user, password) != password:
                reason = (
                    f"line {number} has a different password for the user {shortened(user)!r} than sasl.jaas.config"
                )
                raise ConfigError("seamark.users.file", str(path), reason)
            users_of_file[user] = number
            users[user] = password
    return users


def _items(text: str, separator: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(separator) if item.strip())


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ConfigError(name, text, "it must be an integer >= 0")
    return int(text)


def _is_true(texts: Mapping[str, str], name: str) -> bool:
    text = texts[name].lower()
    if text not in ("true", "false"):
        raise ConfigError(name, texts[name], "it must be true or false")
    return text == "true"


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return (";" if name == "super.users" else ",").join(map(str, value))
    return str(value).strip()
