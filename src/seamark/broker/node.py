"""One node: a broker as clients see it, with an id, listeners and connections, over the store that all nodes share.

Node ids are the positions in ``broker.nodes``, from 0 up. A node that stops closes its listener and connections and
leads nothing; started again it has the same address.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from seamark.broker.net.connection import Connection
from seamark.broker.net.connections import Connections
from seamark.broker.net.fetch_sessions import FetchSessions
from seamark.broker.net.listener import Listener
from seamark.broker.net.tls_gate import Handshakes, TlsGate
from seamark.broker.parts import NodePart, node_parts
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.addresses import Address
    from seamark.broker.groups.runtime import GroupRuntime
    from seamark.broker.net.context import RequestContext
    from seamark.broker.server import BrokerServer

# Connections that may wait to be accepted; the crowd of a load test connects at once.
_BACKLOG = 1024


class Node:
    """Owned by the event loop's thread.

    ``endpoints``, ``settings``, ``clock``, ``timers``, ``turns``, ``answers_in_progress``, ``faults``, ``security``,
    ``log_limits`` and ``cluster`` are shared by all nodes.
    """

    # Set by ``node_parts``.
    groups: GroupRuntime

    def __init__(self, server: BrokerServer, node_id: int, listener: Listener) -> None:
        self.id = node_id
        self.server = server
        self.loop = server.loop
        self.cluster = server.cluster
        self.settings = server.settings
        self.clock = server.clock
        self.timers = server.timers
        self.turns = server.turns
        self.answers_in_progress = server.answers_in_progress
        self.faults = server.faults
        self.security = server.security
        self.log_limits = server.log_limits
        self.endpoints = server.endpoints
        self.listeners = [listener]
        self.connections = Connections(self)
        self.handshakes = Handshakes(self.loop)
        self.fetch_sessions = FetchSessions(self)
        self.is_running = False
        # A fault: every request is handled this much later.
        self.delay_seconds = 0.0
        # Told of every answer and its size, for metrics; None costs nothing.
        self.on_answer: Callable[[RequestContext, int], None] | None = None
        self._servers: list[asyncio.Server] = []
        self.parts: list[NodePart] = node_parts(self)

    @property
    def rack(self) -> str | None:
        rack: str | None = self.settings["broker.rack"]
        return rack

    @property
    def bootstrap(self) -> str:
        """``HOST:PORT`` of the first listener, as a client on this machine may use it."""
        return str(self.listeners[0].address_for("127.0.0.1"))

    def address_for(self, connection: Connection) -> Address:
        """Return what the client of ``connection`` is told to reach this node by: the listener of the same name
        (B20).
        """
        for listener in self.listeners:
            if listener.name == connection.listener.name:
                return listener.address_for(connection.local_host)
        return self.listeners[0].address_for(connection.local_host)

    async def start(self) -> None:
        """Listen, and take over the partitions that have no leader."""
        if not self.is_running:
            await self.listen()
            self.enter()
            self.cluster.node_started(self)

    async def listen(self) -> None:
        """Bind all listeners; UsageError says why one cannot be."""
        tls = self.security.server_tls()
        for listener in self.listeners:
            try:
                server = await self.loop.create_server(
                    lambda listener=listener: self._protocol(listener, tls),
                    listener.host or None,
                    listener.port,
                    backlog=_BACKLOG,
                    reuse_address=True,
                )
            except OSError as error:
                self._close_servers()
                raise UsageError(_why_not_bound(listener, error)) from error
            self._servers.append(server)
            listener.port = server.sockets[0].getsockname()[1]

    def _protocol(self, listener: Listener, tls: ssl.SSLContext | None) -> asyncio.Protocol:
        if tls is None:
            return Connection(self, listener)
        return TlsGate(self, tls, lambda: Connection(self, listener))

    def enter(self) -> None:
        """Count as running; who calls settles leadership afterwards."""
        self.is_running = True
        for part in self.parts:
            part.start()

    def stop(self) -> None:
        """Close the listeners and all connections; the partitions move to other nodes."""
        if self.is_running:
            self.leave()
            self.cluster.node_stopped(self)
            for part in self.parts:
                part.stop()

    def leave(self) -> None:
        """Serve nobody any more."""
        self._close_servers()
        self.is_running = False
        self.connections.close_all("was on a node that stopped")
        self.fetch_sessions.clear()

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()


def _why_not_bound(listener: Listener, error: OSError) -> str:
    place = f"{listener.host}:{listener.port}"
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {place}: the address is in use"
    return f"cannot listen on {place}: {error.strerror or error}"
