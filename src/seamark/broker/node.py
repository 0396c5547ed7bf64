"""One node: a broker as clients see it, with an id, listeners and connections, over the store that all nodes share.

Node ids are the positions in ``broker.nodes``, from 0 up. A node that stops closes its listener and connections and
leads nothing; started again it has the same address.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from seamark.addresses import Address, why_not_bound
from seamark.broker.clock import BrokerClock, Timers
from seamark.broker.cluster.cluster import Cluster
from seamark.broker.cluster.nodes import Caller, NodePart
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.faults.requests import Faults
from seamark.broker.groups.runtime import GroupRuntime
from seamark.broker.groups.zookeeper import ZookeeperOffsets
from seamark.broker.log.partition import Partition
from seamark.broker.net.connection import Connection
from seamark.broker.net.connections import Connections
from seamark.broker.net.context import RequestContext
from seamark.broker.net.endpoint import Endpoint
from seamark.broker.net.fetch_sessions import FetchSessions
from seamark.broker.net.listener import Listener
from seamark.broker.net.tls_gate import Handshakes, TlsGate
from seamark.broker.security.gatekeeper import Gatekeeper
from seamark.broker.sharing.answers_in_progress import AnswersInProgress
from seamark.broker.sharing.fetch_budget import FetchBudget
from seamark.broker.sharing.reading_thread import OneAtATime, ReadingThread
from seamark.broker.sharing.turns import Turns
from seamark.errors import SeamarkError, UsageError
from seamark.log_limits import LogLimits

if TYPE_CHECKING:
    from seamark.broker.api.services import Services

# Connections that may wait to be accepted; the crowd of a load test connects at once.
_BACKLOG = 1024


class SharedByNodes(Protocol):
    """What all nodes of a broker share; ``BrokerServer`` has it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def security(self) -> Gatekeeper: ...

    @property
    def endpoints(self) -> Mapping[int, Endpoint]: ...

    @property
    def connections(self) -> list[Connections]: ...

    @property
    def clock(self) -> BrokerClock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def answers_in_progress(self) -> AnswersInProgress: ...

    @property
    def fetch_budget(self) -> FetchBudget: ...

    @property
    def reading_thread(self) -> ReadingThread: ...

    @property
    def unfolding(self) -> OneAtATime: ...

    @property
    def zookeeper_offsets(self) -> ZookeeperOffsets | None: ...

    @property
    def faults(self) -> Faults: ...

    @property
    def log_limits(self) -> LogLimits: ...

    def note_failure(self, place: str, error: SeamarkError) -> None: ...

    def note_storage_failure(self, partition: Partition, error: SeamarkError) -> None: ...


class Node:
    """Owned by the event loop's thread."""

    def __init__(self, shared: SharedByNodes, node_id: int, listener: Listener) -> None:
        self.id = node_id
        self.loop = shared.loop
        self.cluster = shared.cluster
        self.settings = shared.settings
        self.security = shared.security
        self.endpoints = shared.endpoints
        self.clock = shared.clock
        self.timers = shared.timers
        self.turns = shared.turns
        self.answers_in_progress = shared.answers_in_progress
        self.fetch_budget = shared.fetch_budget
        self.reading_thread = shared.reading_thread
        self.unfolding = shared.unfolding
        self.zookeeper_offsets = shared.zookeeper_offsets
        self.faults = shared.faults
        self.log_limits = shared.log_limits
        self.note_failure = shared.note_failure
        self.note_storage_failure = shared.note_storage_failure
        self.listeners = [listener]
        self.connections = Connections(self, shared.connections)
        self.handshakes = Handshakes(self.loop)
        self.fetch_sessions = FetchSessions(self)
        self.is_running = False
        # A fault: every request is handled this much later.
        self.delay_seconds = 0.0
        # Told of every answer and its size, for metrics; None costs nothing.
        self.on_answer: Callable[[RequestContext, int], None] | None = None
        self._servers: list[asyncio.Server] = []
        self.groups = GroupRuntime(self)
        # Told of starts, stops and leadership.
        self.parts: list[NodePart] = [self.groups]

    @property
    def rack(self) -> str | None:
        rack: str | None = self.settings["broker.rack"]
        return rack

    @property
    def bootstrap(self) -> str:
        """``HOST:PORT`` of the first listener, as a client on this machine may use it."""
        return str(self.listeners[0].address_for("127.0.0.1"))

    def address_for(self, connection: Caller) -> Address:
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
                raise UsageError(why_not_bound(Address(listener.host, listener.port), error)) from error
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


if TYPE_CHECKING:

    def _services_of(node: Node) -> Services:
        """Handlers are found by name, so only here the type checker sees that a node has what they use."""
        return node
