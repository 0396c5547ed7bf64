"""TLS of a listener: from PEM texts or files to a context."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from seamark.errors import HIDDEN, ConfigError

_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class Tls:
    """``certificate``, ``key`` and ``client_ca`` are PEM: a file's path or the text itself.

    A key that stands in the same file as the certificate need not be named. With ``client_ca`` clients must show a
    certificate that it signed; ``client_auth`` is Kafka's ssl.client.auth (none, requested, required).
    """

    certificate: str | Path
    key: str | Path | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    client_ca: str | Path | None = None
    client_auth: str | None = None
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")

    def __repr__(self) -> str:
        return f"Tls(client_auth={self.asks_clients!r}, protocols={self.protocols!r})"

    @property
    def asks_clients(self) -> str:
        return self.client_auth or ("none" if self.client_ca is None else "required")

    def context(self) -> ssl.SSLContext:
        """Read everything; ConfigError says what cannot be used, and never shows it."""
        if self.asks_clients not in _VERIFY:
            raise ConfigError("ssl.client.auth", self.client_auth, f"it must be one of {', '.join(_VERIFY)}")
        if self.asks_clients != "none" and self.client_ca is None:
            raise ConfigError(
                "ssl.client.auth", self.client_auth, "verifying client certificates requires a truststore"
            )
        for protocol in self.protocols:
            if protocol not in _VERSIONS:
                raise ConfigError("ssl.enabled.protocols", protocol, f"it must be one of {', '.join(_VERSIONS)}")
        versions = [_VERSIONS[protocol] for protocol in self.protocols]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = min(versions, default=ssl.TLSVersion.TLSv1_2)
        context.maximum_version = max(versions, default=ssl.TLSVersion.TLSv1_3)
        context.options |= ssl.OP_NO_RENEGOTIATION
        self._load_key(context)
        if self.client_ca is not None:
            with _as_file("ssl.truststore.certificates", self.client_ca) as path, _read("ssl.truststore.certificates"):
                context.load_verify_locations(path)
        context.verify_mode = _VERIFY[self.asks_clients]
        return context

    def _load_key(self, context: ssl.SSLContext) -> None:
        # Without a password OpenSSL would ask for one on the terminal.
        password = self.key_password or ""
        with (
            _as_file("ssl.keystore.certificate.chain", self.certificate) as certificate,
            contextlib.ExitStack() as stack,
        ):
            key = None if self.key is None else stack.enter_context(_as_file("ssl.keystore.key", self.key))
            with _read("ssl.keystore"):
                context.load_cert_chain(certificate, key, lambda: password)


@contextlib.contextmanager
def _as_file(option: str, given: str | Path) -> Iterator[str]:
    """Give a path that OpenSSL can read; a text lies in a file of our own for that long."""
    if isinstance(given, str) and "-----BEGIN" in given:
        descriptor, path = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(given)
            yield path
        finally:
            Path(path).unlink(missing_ok=True)
        return
    if not Path(given).is_file():
        # A key without its first line is no path, and must not be shown either.
        shown = HIDDEN if option == "ssl.keystore.key" or len(str(given)) > 200 else str(given)
        raise ConfigError(option, shown, "it is neither an existing file nor PEM text")
    yield str(given)


@contextlib.contextmanager
def _read(option: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "the PEM cannot be read"
        raise ConfigError(option, "PEM", f"OpenSSL rejects it: {str(reason).replace('_', ' ').lower()}") from None
