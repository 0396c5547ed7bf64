"""The gate of a TLS listener: a connection passes it by shaking hands.

``TlsGate`` counts as a connection from the moment it is accepted, so that those who never shake hands fall under the
same limits, and a handshake that fails leaves one line in the log. A client that says nothing costs no more than its
connection: TLS begins with its first bytes. Handshakes are work for the processor, so ``Handshakes`` begins only some
of them in each turn of the event loop; and they hold memory, so beyond a number of them the oldest is given up.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from seamark.broker.net.connection import Connection
from seamark.broker.net.connections import Connections
from seamark.broker.sharing.file_limits import descriptor_of
from seamark.log_limits import LogLimits

HANDSHAKE_SECONDS = 10.0
# How long a client may take to say goodbye to a connection that is being closed.
GOODBYE_SECONDS = 5.0
# Begun in one turn of the event loop; each takes a millisecond or two.
HANDSHAKES_PER_TURN = 1
MAX_HANDSHAKES = 256
# What a client may send before TLS listens: the first record of its hello.
MAX_HELLO_BYTES = (1 << 14) + 256
# What it may send behind the handshake before the connection is there, which is in the same turn of the event loop.
MAX_EARLY_BYTES = 1 << 20
# OpenSSL's words for a client that speaks something else.
_NOT_TLS = ("wrong version number", "http request", "https proxy request")


class Handshakes:
    """Those of one node; owned by the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[TlsGate] = deque()
        # The longest under way first.
        self._under_way: dict[TlsGate, None] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def ask_for(self, gate: TlsGate) -> None:
        """Have the gate's handshake begin when it is its turn."""
        self._waiting.append(gate)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._begin_some)

    def ended(self, gate: TlsGate) -> None:
        self._under_way.pop(gate, None)

    def _begin_some(self) -> None:
        for _ in range(min(HANDSHAKES_PER_TURN, len(self._waiting))):
            gate = self._waiting.popleft()
            if gate.is_there:
                if len(self._under_way) >= MAX_HANDSHAKES:
                    next(iter(self._under_way)).close(
                        "did not complete the TLS handshake while many other clients started one"
                    )
                self._under_way[gate] = None
                gate.shake_hands()
        if self._waiting:
            self._loop.call_soon(self._begin_some)


class GatedNode(Protocol):
    """What a gate uses of the node behind it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def connections(self) -> Connections: ...

    @property
    def handshakes(self) -> Handshakes: ...

    @property
    def log_limits(self) -> LogLimits: ...


class TlsGate(asyncio.Protocol):
    """Lets a connection in when its handshake is done; what ``Connections`` asks of a connection, it answers too."""

    def __init__(self, node: GatedNode, context: ssl.SSLContext, make_connection: Callable[[], Connection]) -> None:
        self._node = node
        self._context = context
        self._make_connection = make_connection
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._early = bytearray()
        self._is_begun = False
        self._is_closed = False
        self.peer_host = ""
        self.peer_port = 0
        self.opened_at = 0.0
        self.last_active = 0.0
        self.stalled_since: float | None = None
        self.is_waiting = False
        self.is_known = False
        self.is_reading = True
        self.partial_bytes = 0
        self.partial_since = 0.0
        self.swept = (0.0, 0)
        self.sweeps_without_progress = 0
        self.was_gone = False
        self.is_expected_to = "complete the TLS handshake"
        # What comes is always read.
        self.has_gone_unseen = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        self.peer_host, self.peer_port = peer[0], peer[1]
        refusal = self._node.connections.admit(self, descriptor_of(transport))
        if refusal:
            self.close(refusal)
            return
        late = f"did not complete the TLS handshake within {HANDSHAKE_SECONDS:g} seconds"
        self._deadline = self._node.loop.call_later(HANDSHAKE_SECONDS, self.close, late)

    @property
    def is_there(self) -> bool:
        return self._transport is not None

    def shake_hands(self) -> None:
        transport = self._transport
        self._is_begun = True
        self._node.connections.hold(self, 0)
        loop = self._node.loop
        self._task = loop.create_task(self._shake_hands())
        # The task's first step puts TLS in this protocol's place and has it begin in the turn after that, in which
        # reading starts too. Scheduled in this order, what came early is handed over behind the one and before the
        # other can have read anything.
        loop.call_soon(lambda: loop.call_soon(self._hand_over, transport))

    def data_received(self, data: bytes) -> None:
        # The client speaks before TLS listens, and maybe before the connection is there: nothing may get lost.
        is_first = not self._is_begun and not self._early
        self._early += data
        if len(self._early) > (MAX_EARLY_BYTES if self._is_begun else MAX_HELLO_BYTES):
            self.close("did not complete the TLS handshake: it sent too much data")
        elif not self._is_begun:
            self._node.connections.hold(self, len(self._early))
            if is_first:
                self._node.handshakes.ask_for(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._leave()

    def close(self, reason: str, *, level: int = logging.WARNING) -> None:
        if not self._is_closed:
            self._is_closed = True
            about = f"closed connection of {self.peer_host}:{self.peer_port}: it "
            self._node.log_limits.write(level, self.peer_host, reason, about=about)
            if self._task is not None:
                self._task.cancel()
            if self._transport is not None:
                self._transport.abort()
            self._leave()

    abort = close

    def _leave(self) -> None:
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._node.handshakes.ended(self)
        self._node.connections.forget(self)

    async def _shake_hands(self) -> None:
        transport = self._transport
        if transport is None:
            return
        try:
            encrypted = await self._node.loop.start_tls(
                transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=GOODBYE_SECONDS,
            )
        except OSError as error:
            self._task = None
            # Whoever only looks whether the port is open is no reason to worry.
            level = logging.INFO if isinstance(error, ConnectionError) else logging.WARNING
            self.close(f"did not complete the TLS handshake: {_why(error)}", level=level)
            return
        self._task = None
        # The client may be gone already, and nobody would tell a connection that were made only now.
        is_there = self.is_there
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
        words = reason.replace("_", " ").lower()
        if words in _NOT_TLS:
            return f"it did not send TLS ({words}; the client's security.protocol may be wrong)"
        return words
    return str(error) or "it closed the connection"
