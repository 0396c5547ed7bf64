"""TLS of a listener: from PEM texts or files to a context, and the gate that a connection passes while it shakes hands.

``TlsGate`` counts as a connection from the moment it is accepted, so that those who never shake hands fall under the
same limits, and a handshake that fails leaves one line in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import HIDDEN, ConfigError
from seamark.readable_log import readable_logger

if TYPE_CHECKING:
    from seamark.broker.connection import Connection
    from seamark.broker.node import Node

_log = readable_logger("seamark.broker")

HANDSHAKE_SECONDS = 10.0
# What a client may send before it is listened to, in a turn or two of the event loop.
MAX_EARLY_BYTES = 1 << 20
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
                "ssl.client.auth", self.client_auth, "no certificates are given that clients are checked by"
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
        raise ConfigError(option, shown, "there is no such file, and it is no PEM text")
    yield str(given)


@contextlib.contextmanager
def _read(option: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "the PEM cannot be read"
        raise ConfigError(option, "PEM", f"OpenSSL does not take it: {str(reason).replace('_', ' ').lower()}") from None


class TlsGate(asyncio.Protocol):
    """Lets a connection in when its handshake is done; what ``Connections`` asks of a connection, it answers too."""

    def __init__(self, node: Node, context: ssl.SSLContext, make_connection: Callable[[], Connection]) -> None:
        self._node = node
        self._context = context
        self._make_connection = make_connection
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._early = bytearray()
        self._is_closed = False
        self.peer_host = ""
        self.peer_port = 0
        self.last_active = 0.0
        self.stalled_since: float | None = None
        self.is_waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        self.peer_host, self.peer_port = peer[0], peer[1]
        self.last_active = self._node.clock.monotonic()
        refusal = self._node.connections.admit(self)  # type: ignore[arg-type]
        if refusal:
            self.close(refusal)
            return
        loop = self._node.loop
        self._task = loop.create_task(self._shake_hands())
        # The task's first step puts TLS in this protocol's place and has it begin in the turn after that, in which
        # reading starts too. Scheduled in this order, what came early is handed over behind the one and before the
        # other can have read anything.
        loop.call_soon(lambda: loop.call_soon(self._hand_over, transport))

    def data_received(self, data: bytes) -> None:
        # The client may have spoken before TLS listens, or before the connection is there: nothing may get lost.
        self._early += data
        if len(self._early) > MAX_EARLY_BYTES:
            self.close("did not complete the TLS handshake: it sent too much at once")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._leave()

    def close(self, reason: str, *, level: int = logging.INFO) -> None:
        if not self._is_closed:
            self._is_closed = True
            _log.log(level, "closed connection of %s:%s: it %s", self.peer_host, self.peer_port, reason)
            if self._task is not None:
                self._task.cancel()
            if self._transport is not None:
                self._transport.abort()
            self._leave()

    abort = close

    def _leave(self) -> None:
        self._transport = None
        self._node.connections.forget(self)  # type: ignore[arg-type]

    async def _shake_hands(self) -> None:
        transport = self._transport
        if transport is None:
            return
        try:
            encrypted = await self._node.loop.start_tls(
                transport, self, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError as error:
            self._task = None
            self.close(f"did not complete the TLS handshake: {_why(error)}")
            return
        self._task = None
        # The client may be gone already, and nobody would tell a connection that were made only now.
        is_there = self._transport is not None
        self._leave()
        if encrypted is not None and is_there:
            connection = self._make_connection()
            encrypted.set_protocol(connection)
            connection.connection_made(encrypted)
            # The first request may have come with the end of the handshake.
            if self._early:
                connection.data_received(bytes(self._early))

    def _hand_over(self, transport: Any) -> None:
        # asyncio's or uvloop's own, which have the methods of a BufferedProtocol and no class in common.
        tls: Any = transport.get_protocol()
        early, self._early = bytes(self._early), bytearray()
        while early and tls is not self and not transport.is_closing():
            room = memoryview(tls.get_buffer(len(early)))
            count = min(len(room), len(early))
            room[:count] = early[:count]
            tls.buffer_updated(count)
            early = early[count:]


def _why(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason.replace("_", " ").lower()
    return str(error) or "it ended the connection"
