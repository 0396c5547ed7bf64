"""The TLS side of a connection, made from the ``ssl.`` keys; certificates and keys are PEM.

The context is made once per client, when the client is made: a file that cannot be read is a ConfigError with the key's
name, and not a connection that fails later. Names are checked unless ``ssl.endpoint.identification.algorithm`` is
empty; the chain is always checked.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from typing import TYPE_CHECKING

from seamark.errors import HIDDEN, ConfigError

if TYPE_CHECKING:
    from seamark.client.config.config import ClientConfig

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(config: ClientConfig) -> ssl.SSLContext | None:
    """What connections encrypt with, or None for a plain listener."""
    if not config.security_protocol.endswith("SSL"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.ssl_endpoint_identification_algorithm == "https"
    wanted = [_VERSIONS[name] for name in config.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(wanted), max(wanted)
    _load_trusted(context, config)
    _load_own(context, config)
    if config.ssl_cipher_suites:
        try:
            context.set_ciphers(":".join(config.ssl_cipher_suites))
        except ssl.SSLError as error:
            shown = ",".join(config.ssl_cipher_suites)
            raise ConfigError(
                "ssl.cipher.suites", shown, f"OpenSSL supports none of them ({_reason(error)})"
            ) from error
    return context


def _load_trusted(context: ssl.SSLContext, config: ClientConfig) -> None:
    if config.ssl_truststore_certificates is not None:
        try:
            context.load_verify_locations(cadata=config.ssl_truststore_certificates)
        except ssl.SSLError as error:
            raise ConfigError("ssl.truststore.certificates", HIDDEN, f"is not PEM ({_reason(error)})") from error
    elif config.ssl_truststore_location is not None:
        location = config.ssl_truststore_location
        try:
            context.load_verify_locations(cafile=location)
        except ssl.SSLError as error:
            raise ConfigError("ssl.truststore.location", location, f"is not a PEM file ({_reason(error)})") from error
        except OSError as error:
            raise ConfigError("ssl.truststore.location", location, f"cannot be read ({error.strerror})") from error
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)


def _load_own(context: ssl.SSLContext, config: ClientConfig) -> None:
    password = config.ssl_key_password if config.ssl_key_password is not None else config.ssl_keystore_password
    if config.ssl_keystore_key is not None:
        if config.ssl_keystore_certificate_chain is None:
            raise ConfigError("ssl.keystore.key", HIDDEN, "requires ssl.keystore.certificate.chain")
        text = config.ssl_keystore_key.strip() + "\n" + config.ssl_keystore_certificate_chain.strip() + "\n"
        # OpenSSL reads keys from files only; this one is ours alone (mode 600) and gone at once.
        descriptor, path = tempfile.mkstemp(prefix="seamark-", suffix=".pem")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            _load_chain(context, path, password, "ssl.keystore.key", HIDDEN)
        finally:
            os.unlink(path)  # noqa: PTH108
    elif config.ssl_keystore_location is not None:
        location = config.ssl_keystore_location
        _load_chain(context, location, password, "ssl.keystore.location", location)


def _load_chain(context: ssl.SSLContext, path: str, password: str | None, key: str, value: str) -> None:
    try:
        # Without a password OpenSSL would ask on the terminal; an empty one makes it fail instead.
        context.load_cert_chain(path, password=lambda: password or "")
    except ssl.SSLError as error:
        reason = f"certificate and private key cannot be used ({_reason(error)}; wrong password?)"
        raise ConfigError(key, value, reason) from error
    except OSError as error:
        raise ConfigError(key, value, f"cannot be read ({error.strerror})") from error


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's word for it; some errors have only a text."""
    return getattr(error, "reason", None) or str(error.args[-1] if error.args else "unknown")
