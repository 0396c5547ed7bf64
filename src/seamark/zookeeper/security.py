"""Who we are to ZooKeeper and whom we trust: kazoo's settings, checked before kazoo has them.

Kazoo reads certificates in its own thread, at every attempt to connect: a file that is missing would look like a server
that is not there, and an encrypted key without a password would ask the terminal for one. Here all of it is tried once.

``from_properties`` takes the names of Kafka's own ``zk-tls-config-file``; stores of certificates are PEM files.
"""

from __future__ import annotations

import importlib.util
import ssl
from collections.abc import Mapping
from typing import Any

from seamark.errors import HIDDEN, ConfigError, MissingExtra

_TLS = frozenset({"use_ssl", "ca", "certfile", "keyfile", "keyfile_password", "verify_certs", "check_hostname"})
_SSL = "zookeeper.ssl."
_SASL = "zookeeper.sasl."
# Kept for the JVM tools that read the same file.
_MEANT_FOR_JAVA = frozenset({"zookeeper.clientCnxnSocket", f"{_SSL}truststore.password"})
_KNOWN = _MEANT_FOR_JAVA | {
    "zookeeper.digest",
    *(f"{_SASL}{name}" for name in ("mechanism", "username", "password")),
    *(
        f"{_SSL}{name}"
        for name in (
            "client.enable", "endpoint.identification.algorithm", "keystore.location", "keystore.password",
            "keystore.type", "truststore.location", "truststore.type",
        )
    ),
}  # fmt: skip


def checked_tls(tls: Mapping[str, Any] | None) -> dict[str, Any]:
    """Kazoo's keywords for TLS; ConfigError for one that it does not have, or a file that cannot be used."""
    if tls is None:
        return {}
    options = {"use_ssl": True, **tls}
    for name in options.keys() - _TLS:
        # Not its value, which may be a password under a wrong name.
        raise ConfigError(f"tls[{name!r}]", HIDDEN, f"unknown setting; known: {', '.join(sorted(_TLS))}")
    if bool(options.get("certfile")) != bool(options.get("keyfile")):
        raise ConfigError("tls['certfile']", options.get("certfile"), "certfile and keyfile must be given together")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if options.get("ca"):
        _try("tls['ca']", options["ca"], lambda: context.load_verify_locations(options["ca"]))
    if options.get("certfile"):
        # Not None, which would ask the terminal.
        password = options.get("keyfile_password") or ""
        _try(
            "tls['certfile']",
            options["certfile"],
            lambda: context.load_cert_chain(options["certfile"], options["keyfile"], password),
        )
    return options


def _try(option: str, file: object, load: Any) -> None:
    try:
        load()
    except ssl.SSLError:
        raise ConfigError(option, file, "not a PEM file of this kind, or the password of its key is wrong") from None
    except OSError as error:
        raise ConfigError(option, file, f"cannot be read ({error.strerror})") from None


def checked_sasl(sasl: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Kazoo's options for SASL; MissingExtra where what kazoo needs for them is not installed."""
    if sasl is None:
        return None
    if not sasl.get("mechanism"):
        raise ConfigError("sasl['mechanism']", sasl.get("mechanism"), "is required: DIGEST-MD5 or GSSAPI")
    if importlib.util.find_spec("puresasl") is None:
        raise MissingExtra("signing in to ZooKeeper with SASL", "zookeeper")
    return dict(sasl)


def from_properties(properties: Mapping[str, str]) -> dict[str, Any]:
    """The keywords ``digest``, ``sasl`` and ``tls`` of a store.

    >>> from_properties({"zookeeper.sasl.username": "mover", "zookeeper.sasl.password": "secret"})["sasl"]["mechanism"]
    'DIGEST-MD5'
    """
    for name in sorted(properties.keys() - _KNOWN):
        known = ", ".join(sorted(_KNOWN))
        raise ConfigError(name, HIDDEN, f"unknown ZooKeeper setting; known: {known}")
    options: dict[str, Any] = {}
    if properties.get("zookeeper.digest"):
        options["digest"] = properties["zookeeper.digest"]
    sasl = {name.removeprefix(_SASL): value for name, value in properties.items() if name.startswith(_SASL)}
    if sasl:
        options["sasl"] = {"mechanism": "DIGEST-MD5", **sasl}
    if _is_true(properties, f"{_SSL}client.enable"):
        options["tls"] = _tls_of(properties)
    return options


def _tls_of(properties: Mapping[str, str]) -> dict[str, Any]:
    for store in ("keystore", "truststore"):
        kind = properties.get(f"{_SSL}{store}.type", "PEM")
        if kind.upper() != "PEM":
            raise ConfigError(f"{_SSL}{store}.type", kind, "only PEM is supported (convert with keytool or openssl)")
    options: dict[str, Any] = {
        "check_hostname": properties.get(f"{_SSL}endpoint.identification.algorithm", "HTTPS").upper() == "HTTPS"
    }
    if trusted := properties.get(f"{_SSL}truststore.location"):
        options["ca"] = trusted
    if own := properties.get(f"{_SSL}keystore.location"):
        options |= {"certfile": own, "keyfile": own, "keyfile_password": properties.get(f"{_SSL}keystore.password")}
    return options


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    text = properties.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(name, text, "must be true or false")
    return text == "true"
