"""A simulated client's connections: one per node and purpose, versions negotiated, made anew with Kafka's backoff.

Requests that come while a connection is made wait for it; all of them fail with it. A request that is not answered in
its time ends its connection, as in the real client. Answers come in the order of the requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from seamark.client.cluster_view import Node
from seamark.client.errors import ClientError, ConnectionFailed, NoBrokerAvailable, RequestTimedOut
from seamark.client.net.connection import BrokerVersions
from seamark.client.net.handshake import hello, next_hello_version, read_hello
from seamark.client.requests import Request, VersionedRequest
from seamark.client.timing import ExponentialBackoff
from seamark.coordinator.commands import Command
from seamark.coordinator.replies import Reply
from seamark.simulation.world.connections import Connection
from seamark.simulation.world.process_clock import ProcessClock
from seamark.simulation.world.wire_network import WireNetwork
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest
from seamark.wire.schema.schema import Message

_HELLO_TIMEOUT_MS = 5000

OnAnswer = Callable[[Any], None]
OnFailure = Callable[[ClientError], None]


class Exchange:
    """One request on its way; ``version`` is set when it is sent."""

    __slots__ = ("is_over", "on_answer", "on_failure", "request", "response", "timeout_ms", "version")

    def __init__(
        self,
        request: Request,
        response: type[Message],
        timeout_ms: int,
        on_answer: OnAnswer,
        on_failure: OnFailure,
    ) -> None:
        self.request = request
        self.response = response
        self.timeout_ms = timeout_ms
        self.on_answer = on_answer
        self.on_failure = on_failure
        self.version = 0
        self.is_over = False

    @property
    def name(self) -> str:
        kind = self.request.request if isinstance(self.request, VersionedRequest) else type(self.request)
        return kind.__name__.removesuffix("Request")

    def fail(self, error: ClientError) -> None:
        if not self.is_over:
            self.is_over = True
            self.on_failure(error)


class Link:
    """The connection to one node for one purpose; implements ``wire_network.FramePeer``."""

    def __init__(
        self,
        name: str,
        node: Node,
        clock: ProcessClock,
        network: WireNetwork,
        backoff: ExponentialBackoff,
        on_lost: Callable[[], None],
    ) -> None:
        self.name = name
        self.node = node
        self._clock = clock
        self._network = network
        self._backoff = backoff
        self._on_lost = on_lost
        self.connection: Connection | None = None
        self._versions: BrokerVersions | None = None
        self._hello_version = 0
        self._is_opening = False
        self._queue: deque[Exchange] = deque()
        self._sent: deque[Exchange] = deque()
        self._failures = 0
        self._not_before_ms = 0
        self._correlation = 0

    @property
    def is_ready(self) -> bool:
        return self._versions is not None

    @property
    def is_backing_off(self) -> bool:
        return self._clock.now_ms < self._not_before_ms

    def send(self, exchange: Exchange) -> None:
        self._clock.call_later(exchange.timeout_ms, self._expire, exchange)
        if self._versions is not None:
            self._write(exchange)
            return
        self._queue.append(exchange)
        if not self._is_opening:
            self._is_opening = True
            self._clock.call_at(max(self._not_before_ms, self._clock.now_ms), self._open)

    def _open(self) -> None:
        if not self._is_opening:
            return
        connection = self._network.connect_to(self.node.id, self)
        if connection is None:
            self._lose(ConnectionFailed(self.node.address, "connection refused"))
            return
        self.connection = connection
        self._greet(ApiVersionsRequest.versions.last)

    def _greet(self, version: int) -> None:
        self._hello_version = version
        self._send_frame(hello(), version)
        # A peer that never says a word is given up as one that does not answer.
        self._clock.call_later(_HELLO_TIMEOUT_MS, self._silent, self.connection)

    def _silent(self, connection: Connection | None) -> None:
        if connection is self.connection and self._versions is None:
            self._lose(ConnectionFailed(self.node.address, "connected, but no answer to ApiVersions"))

    def _write(self, exchange: Exchange) -> None:
        assert self._versions is not None
        request = exchange.request
        kind = request.request if isinstance(request, VersionedRequest) else type(request)
        version = exchange.version = self._versions.choose(kind)
        self._sent.append(exchange)
        self._send_frame(request.make(version) if isinstance(request, VersionedRequest) else request, version)

    def _send_frame(self, message: Message, version: int) -> None:
        assert self.connection is not None
        self._correlation += 1
        frame = encode_request(message, version, self._correlation, self.name)
        self._network.send_frame(self.connection, self._correlation, frame)

    # -- what comes back

    def on_frame(self, connection: Connection, frame: bytes) -> None:
        self._clock.run(self._received, connection, frame)

    def _received(self, connection: Connection, frame: bytes) -> None:
        if connection is not self.connection:
            return
        if self._versions is None:
            self._greeted(frame)
            return
        exchange = self._sent.popleft()
        if not exchange.is_over:
            exchange.is_over = True
            exchange.on_answer(decode_response(exchange.response, frame, exchange.version)[1])

    def _greeted(self, frame: bytes) -> None:
        response = read_hello(frame, self._hello_version, self.node.address)
        again = next_hello_version(response, self.node.address)
        if again is not None:
            self._greet(again)
            return
        self._versions = BrokerVersions(self.node.address, response)
        self._is_opening = False
        self._failures = 0
        queue, self._queue = self._queue, deque()
        for exchange in queue:
            if not exchange.is_over:
                self._write(exchange)

    def on_reply(self, connection: Connection, correlation: int, command: Command, reply: Reply) -> None:
        raise AssertionError(f"only frames travel here: {connection} {correlation} {command} {reply}")

    def on_disconnect(self, connection: Connection) -> None:
        self._clock.run(self._disconnected, connection)

    def _disconnected(self, connection: Connection) -> None:
        if connection is self.connection:
            self._lose(ConnectionFailed(self.node.address, "the broker closed the connection"))
            self._on_lost()

    def _expire(self, exchange: Exchange) -> None:
        if exchange.is_over:
            return
        seconds = exchange.timeout_ms / 1000
        error = RequestTimedOut(self.node.address, exchange.name, seconds)
        if exchange in self._queue:
            self._queue.remove(exchange)
            exchange.fail(error)
            return
        exchange.fail(error)
        self._lose(ConnectionFailed(self.node.address, f"the connection was closed because {error.reason}"))
        self._on_lost()

    def _lose(self, error: ClientError) -> None:
        self._failures += 1
        self._not_before_ms = self._clock.now_ms + int(self._backoff.wait_ms(self._failures))
        self._drop(error)

    def _drop(self, error: ClientError) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.is_open = False
        self._versions = None
        self._is_opening = False
        waiting = [*self._sent, *self._queue]
        self._sent.clear()
        self._queue.clear()
        for exchange in waiting:
            exchange.fail(error)

    def disconnect(self, reason: str) -> None:
        """Close the connection on the client's own account: no backoff follows."""
        self._drop(ConnectionFailed(self.node.address, f"the connection was closed: {reason}"))


class Links:
    """All connections of one client process. ``nodes`` are those that any answer named."""

    def __init__(
        self,
        name: str,
        bootstrap: list[Node],
        clock: ProcessClock,
        network: WireNetwork,
        backoff: ExponentialBackoff,
        on_lost: Callable[[], None],
    ) -> None:
        self.name = name
        self._bootstrap = bootstrap
        self._clock = clock
        self._network = network
        self._backoff = backoff
        self._on_lost = on_lost
        self.nodes: dict[int, Node] = {}
        self._links: dict[tuple[int, bool], Link] = {}

    def link(self, node: Node, *, for_group: bool = False) -> Link:
        """The separate connection to a coordinator keeps it free of what waits elsewhere (B25)."""
        found = self._links.get((node.id, for_group))
        if found is None:
            found = Link(self.name, node, self._clock, self._network, self._backoff, self._on_lost)
            self._links[node.id, for_group] = found
        return found

    def send_to_any(self, exchange: Exchange) -> None:
        """Get an answer from whichever node gives one, until the exchange's time is over."""
        self._try_any(exchange, self._clock.now_ms + exchange.timeout_ms, 0)

    def _try_any(self, exchange: Exchange, deadline_ms: int, tries: int) -> None:
        def failed(error: ClientError) -> None:
            if not error.is_retriable:
                exchange.fail(error)
            elif self._clock.now_ms >= deadline_ms:
                exchange.fail(NoBrokerAvailable({self.name: str(error)}, exchange.timeout_ms / 1000))
            else:
                self._clock.call_later(1, self._try_any, exchange, deadline_ms, tries + 1)

        left_ms = max(1, deadline_ms - self._clock.now_ms)
        link = self._any(tries)
        link.send(Exchange(exchange.request, exchange.response, left_ms, exchange.on_answer, failed))

    def _any(self, tries: int) -> Link:
        ready = [link for (_, for_group), link in self._links.items() if link.is_ready and not for_group]
        if ready and not tries:
            return ready[0]
        known = sorted(self.nodes.values(), key=lambda node: node.id) or self._bootstrap
        links = sorted((self.link(node) for node in known), key=lambda link: link.is_backing_off)
        return links[tries % len(links)]

    @property
    def to_coordinators(self) -> list[Connection]:
        found = [link.connection for (_, for_group), link in self._links.items() if for_group]
        return [each for each in found if each is not None and each.is_open]

    @property
    def open(self) -> list[Connection]:
        found = [link.connection for link in self._links.values()]
        return [each for each in found if each is not None and each.is_open]

    def close(self) -> None:
        """The process is gone: nothing more goes over its connections."""
        for connection in self.open:
            connection.is_open = False
