"""All a client's conversations: bootstrap, one connection per node and purpose, metadata, coordinators.

The shell around the pure cores ``cluster_view`` and ``discovery``: it gives them answers and the time, and does what
they say. Every method runs on the I/O loop. Nothing here retries an answer that carries an error code: what an error
means is known by who asked. What is retried is getting an answer at all, from brokers that are interchangeable
(``send_to_any``), until the deadline.

``send(node_id, …)`` is one request on one connection, in the newest version that both sides have. A request that looks
different in different versions is given as ``VersionedRequest``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

from seamark.client.cluster_view import ClusterView, MetadataCache, Node
from seamark.client.config.config import ClientConfig
from seamark.client.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    NetworkError,
    NoBrokerAvailable,
    RequestTimedOut,
    TlsFailed,
    UnsupportedByBroker,
    broker_error,
)
from seamark.client.net.bootstrap import bootstrap_nodes, first_ready
from seamark.client.net.connection import Connection
from seamark.client.net.coordinators import Coordinators
from seamark.client.net.discovery import coordinator_connection_id, leaving_connection_id
from seamark.client.net.exchanges import Exchanges
from seamark.client.net.handshake import ConnectionRecipe
from seamark.client.net.metadata_refresh import MetadataRefresh
from seamark.client.net.node import NodeConnection
from seamark.client.net.reachability import Reachability
from seamark.client.net.surroundings import PROCESS, Surroundings
from seamark.client.net.tls import tls_context
from seamark.client.requests import Request
from seamark.client.timing import Deadline
from seamark.errors import ClosedError
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.schema.schema import Message

M = TypeVar("M", bound=Message)
Lane = Literal["main", "coordinator", "leaving"]
_CONNECTION_IDS: dict[Lane, Callable[[int], int]] = {
    "main": lambda node_id: node_id,
    "coordinator": coordinator_connection_id,
    "leaving": leaving_connection_id,
}


class NetworkClient:
    """One per Consumer, Producer or Admin. Make it on any thread; use it on the I/O loop only."""

    def __init__(self, config: ClientConfig, surroundings: Surroundings = PROCESS) -> None:
        self.config = config
        self._surroundings = surroundings
        self.log = surroundings.make_log(config)
        self._reachability = Reachability(self.log, surroundings.monotonic)
        self.metadata = MetadataCache(
            config.metadata_max_age_ms, surroundings.backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        )
        self._recipe = ConnectionRecipe(
            client_id=config.client_id or "seamark",
            request_timeout_s=config.request_timeout_ms / 1000,
            security_protocol=config.security_protocol,
            tls=tls_context(config),
            credentials=config.credentials,
            send_buffer_bytes=config.send_buffer_bytes,
            receive_buffer_bytes=config.receive_buffer_bytes,
            clock=surroundings.monotonic,
        )
        self._reconnect = surroundings.backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        self._setup_timeout = surroundings.backoff(
            config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms
        )
        self._connections: dict[int, NodeConnection] = {}
        # Nodes that were named by FindCoordinator; metadata may not have them yet.
        self._named_nodes: dict[int, Node] = {}
        self._bootstrap: tuple[Node, ...] = ()
        # Bootstrap connections that wait for their last answers, with what closes them if those do not come.
        self._let_go: dict[NodeConnection, asyncio.TimerHandle] = {}
        self._refresh = MetadataRefresh(self, surroundings)
        self.coordinators = Coordinators(self, surroundings)
        self._is_closed = False
        self._keeper: asyncio.Task[None] | None = None
        self.exchanges = Exchanges(self.log)

    @property
    def request_counts(self) -> dict[str, int]:
        """Requests sent so far, by API."""
        return self.exchanges.counts

    # one request

    async def send(
        self,
        node_id: int,
        message: Request,
        response: type[M],
        *,
        deadline: Deadline | None = None,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
        lane: Lane = "main",
    ) -> M:
        """As ``exchange``, for answers that read alike in all versions."""
        answer, _ = await self.exchange(
            node_id, message, response, deadline=deadline, timeout_ms=timeout_ms, min_version=min_version,
            max_version=max_version, lane=lane,
        )  # fmt: skip
        return answer

    async def exchange(
        self,
        node_id: int,
        message: Request,
        response: type[M],
        *,
        deadline: Deadline | None = None,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
        lane: Lane = "main",
    ) -> tuple[M, int]:
        """One request to one node, once: its answer and the version of both; NetworkError when there is no answer.

        ``timeout_ms`` is the broker's time to answer (request.timeout.ms by default), ``deadline`` the caller's
        patience with connecting and answering together; when that passes, the connection is not disturbed. Requests
        in the coordinator's lane are written in the order of the calls: a commit never overtakes an earlier one.
        """
        timeout_s = (self.config.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        deadline = deadline or self._surroundings.deadline(timeout_s)
        node_connection = self.connection_to(node_id, lane)
        place = node_connection.order.take_place() if lane == "coordinator" else None
        try:
            connection = await node_connection.ready(deadline)
            return await self.exchanges.run(
                connection, message, response, deadline, timeout_s, min_version, max_version, place
            )
        finally:
            if place is not None:
                place.leave()

    async def send_to_any(
        self,
        message: Request,
        response: type[M],
        *,
        deadline: Deadline,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> M:
        """Get an answer from whichever broker gives one first, until the deadline: NoBrokerAvailable then.

        A refused identity or certificate ends it at once: another broker of the cluster would say the same.
        """
        timeout_s = (self.config.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        last: NetworkError | None = None
        while True:
            try:
                connection = await self.any_connection(deadline)
                answer, _ = await self.exchanges.run(
                    connection, message, response, deadline, timeout_s, min_version, max_version
                )
            except (AuthenticationFailed, TlsFailed, UnsupportedByBroker, NoBrokerAvailable):
                raise
            except NetworkError as error:
                last = error
            else:
                return answer
            if deadline.is_over:
                raise NoBrokerAvailable(self._causes(last), deadline.seconds) from last

    async def send_to_coordinator(
        self,
        group_id: str,
        message: Request,
        response: type[M],
        *,
        deadline: Deadline,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> M:
        """Find the group's coordinator if it is not known (B23), then send one request over its own connection (B25).

        A connection that fails marks the coordinator unknown (F21, F23); error codes in the answer are the caller's,
        who calls ``coordinators.moved`` when they say so.
        """
        node = await self.coordinators.find(group_id, deadline)
        try:
            return await self.send(
                node.id, message, response, deadline=deadline, timeout_ms=timeout_ms, min_version=min_version,
                max_version=max_version, lane="coordinator",
            )  # fmt: skip
        except (ConnectionFailed, RequestTimedOut):
            self.coordinators.moved(group_id, node)
            raise

    async def send_in_order(
        self, node_id: int, message: Message, response: type[M] | None, *, min_version: int = 0
    ) -> M | None:
        """One request to one node, written after those that were made before it in this way.

        Batches of one partition must not overtake each other. Only writing stands in line, answers come whenever. One
        that the broker does not answer (Produce with acks=0) has no ``response``.
        """
        timeout_s = self.config.request_timeout_ms / 1000
        node_connection = self.connection_to(node_id)
        place = node_connection.order.take_place()
        try:
            await place.reached()
            connection = await node_connection.ready(self._surroundings.deadline(timeout_s))
            answer = await self.exchanges.start(connection, message, response, min_version, timeout_s)
        finally:
            place.leave()
        return None if answer is None else await answer

    # nodes and connections

    def connection_to(self, node_id: int, lane: Lane = "main") -> NodeConnection:
        """The connection to a node for a purpose; ConnectionFailed if no such node is known."""
        if self._is_closed:
            raise ClosedError("the client was closed")
        connection_id = _CONNECTION_IDS[lane](node_id)
        node = self.node(node_id)
        connection = self._connections.get(connection_id)
        if connection is not None:
            if node is not None and node != connection.node:
                connection.move_to(node)
            return connection
        if node is None:
            raise ConnectionFailed(f"node {node_id}", "the cluster currently has no such broker")
        self._keep()
        made = NodeConnection(
            connection_id,
            node,
            self._recipe,
            self._reconnect,
            self._setup_timeout,
            on_lost=self._lost,
            on_attempt=self._reachability.attempted,
            on_open=self._reachability.reached,
        )
        self._connections[connection_id] = made
        return made

    def node(self, node_id: int) -> Node | None:
        """Where a node is, as far as anybody told; negative ids are bootstrap addresses."""
        if node_id < 0:
            return next((node for node in self._bootstrap if node.id == node_id), None)
        return self.metadata.view.brokers.get(node_id) or self._named_nodes.get(node_id)

    def learn_node(self, node: Node) -> None:
        """Take note of a node that an answer named."""
        self._named_nodes[node.id] = node

    def disconnect(self, connection_id: int, reason: str) -> None:
        """Close a connection on our own account; it is made again when it is needed again."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            connection.disconnect(reason)

    async def any_connection(self, deadline: Deadline) -> Connection:
        """A usable connection to any broker: an open one with little to do, or else the first that opens."""
        ready = [each for each in self._connections.values() if each.is_ready and self._is_main(each)]
        if ready:
            best = min(ready, key=lambda each: each.in_flight_count)
            assert best.connection is not None
            return best.connection
        known = sorted(self.metadata.view.brokers.values(), key=lambda node: self._preference(node.id))
        candidates = [self.connection_to(node.id) for node in known]
        if not candidates or self.config.metadata_recovery_strategy == "rebootstrap":
            addresses = {(node.host, node.port) for node in known}
            self._bootstrap = self._bootstrap or await bootstrap_nodes(self.config)
            fresh = (node for node in self._bootstrap if (node.host, node.port) not in addresses)
            candidates += [self.connection_to(node.id) for node in fresh]
        return await first_ready(candidates, deadline, self.causes)

    def _preference(self, node_id: int) -> tuple[bool, int]:
        connection = self._connections.get(node_id)
        return (connection is not None and connection.is_backing_off, node_id)

    def _is_main(self, each: NodeConnection) -> bool:
        return each.connection_id == each.node.id

    def causes(self) -> dict[str, str]:
        """Why each known address is not usable."""
        return self._causes(None)

    def _causes(self, last: NetworkError | None) -> dict[str, str]:
        # What is known to be wrong with an address counts more than that a connection to it is open.
        connections = self._connections.values()
        causes = {each.node.address: each.reason() for each in connections if each.is_ready}
        if last is not None:
            causes[last.address] = last.reason
        causes |= {each.node.address: each.reason() for each in connections if not each.is_ready}
        return causes or dict.fromkeys(self.config.bootstrap_servers, "not connected yet")

    def _lost(self, each: NodeConnection) -> None:
        address, reason = each.node.address, each.reason()
        text = f"the connection to {address} was lost: {reason}"
        self.log.say(logging.INFO, "connection_lost", text, address=address, reason=reason)
        self.metadata.mark_stale()
        self._refresh.nudge()

    def drop_bootstrap(self) -> None:
        """The cluster's own nodes are known: bootstrap connections that are not in use go, others become the node's."""
        for node in self._bootstrap:
            connection = self._connections.get(node.id)
            if connection is None:
                continue
            same = next(
                (b for b in self.metadata.view.brokers.values() if (b.host, b.port) == (node.host, node.port)), None
            )
            del self._connections[node.id]
            if same is not None and same.id not in self._connections:
                connection.connection_id, connection.node = same.id, same
                self._connections[same.id] = connection
            elif connection.in_flight_count:
                timeout_s = self.config.request_timeout_ms / 1000
                timer = asyncio.get_running_loop().call_later(timeout_s, self._close_let_go, connection)
                self._let_go[connection] = timer
            else:
                connection.close()

    def _close_let_go(self, connection: NodeConnection) -> None:
        self._let_go.pop(connection).cancel()
        connection.close()

    # metadata

    @property
    def view(self) -> ClusterView:
        return self.metadata.view

    async def refresh_metadata(self, deadline: Deadline) -> ClusterView:
        """Ask for fresh metadata and wait for it; requests made meanwhile share one answer."""
        self.metadata.mark_stale()
        await self._refresh.wait(deadline)
        return self.metadata.view

    def request_refresh(self) -> None:
        """Ask for fresh metadata without waiting: an answer showed that something has changed."""
        self.metadata.mark_stale()
        self._refresh.nudge()

    async def ensure_topics(self, topics: Iterable[str], deadline: Deadline) -> ClusterView:
        """A view that has an entry for each of the topics, if only one with its error."""
        wanted = set(topics)
        self.metadata.add_topics(wanted)
        while not wanted <= self.metadata.view.topics.keys():
            await self._refresh.wait(deadline)
        return self.metadata.view

    async def wait_for_topic(
        self, name: str, flaw: Callable[[ClusterView], ErrorCode], subject: str, operation: str, deadline: Deadline
    ) -> ClusterView:
        """A view in which the topic has neither an error nor a ``flaw``, which an error would name by ``subject``.

        OperationTimedOut when there is none by the deadline; Refused for a topic that we may not see.
        """
        while True:
            view = await self.ensure_topics([name], deadline)
            code = view.topics[name].error or flaw(view)
            if not code:
                return view
            error = broker_error(code, "Metadata", subject)
            if not error.is_retriable:
                raise error
            deadline.check(operation, error)
            try:
                await self.refresh_metadata(deadline)
            except NetworkError:
                raise deadline.timed_out(operation, error) from None

    async def leader_of(self, partition: TopicPartition, deadline: Deadline) -> Node:
        """The partition's leader, waiting for one."""

        def flaw(view: ClusterView) -> ErrorCode:
            if view.leader(partition) is not None:
                return ErrorCode.NONE
            is_there = partition.partition in view.topics[partition.topic].partitions
            return ErrorCode.LEADER_NOT_AVAILABLE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        subject, operation = f"partition {partition}", f"finding the leader of {partition}"
        view = await self.wait_for_topic(partition.topic, flaw, subject, operation, deadline)
        leader = view.leader(partition)
        assert leader is not None
        return leader

    def allow_topic_creation(self, is_allowed: bool) -> None:
        """Whether asking for a topic that does not exist may make it, where brokers allow that; not before this."""
        self._refresh.allow_auto_topic_creation = is_allowed

    def on_metadata(self, listener: Callable[[ClusterView], None]) -> None:
        """Call ``listener`` on the I/O loop with every new view."""
        self._refresh.listeners.append(listener)

    # life

    async def close(self) -> None:
        """End all connections and tasks; may be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        self._reachability.close()
        self._refresh.close()
        self.coordinators.close()
        if self._keeper is not None:
            self._keeper.cancel()
        for each in self._connections.values():
            each.close()
        self._connections.clear()
        for each in list(self._let_go):
            self._close_let_go(each)
        # Transports that were aborted close their sockets in the next round of the loop.
        await asyncio.sleep(0)

    def rest(self, *, is_resting: bool) -> None:
        """Nobody uses the client for now: what it cannot reach meanwhile is not worth a line. From any thread."""
        self._reachability.is_silent = is_resting

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def _keep(self) -> None:
        if self._keeper is None and self.config.connections_max_idle_ms >= 0:
            self._keeper = asyncio.get_running_loop().create_task(self._close_idle())

    async def _close_idle(self) -> None:
        idle_s = self.config.connections_max_idle_ms / 1000
        while True:
            await asyncio.sleep(max(idle_s / 4, 0.05))
            too_old = self._surroundings.monotonic() - idle_s
            for each in self._connections.values():
                connection = each.connection
                if connection is not None and not connection.in_flight_count and connection.last_used < too_old:
                    each.disconnect("it was idle for connections.max.idle.ms")
