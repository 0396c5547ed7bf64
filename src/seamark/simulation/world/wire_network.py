"""The network of real clients: frames of Kafka's protocol between consumers and the nodes of a cluster.

What travels is bytes, written and read by ``seamark.wire`` at both ends, so that what a client says is what the
coordinator hears, in every version. Chances, delays and breaks are those of ``Network``. A node that stops takes its
connections with it; most clients learn of it at once, the others wait for answers in vain.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from seamark.coordinator.commands import Command, Heartbeat
from seamark.coordinator.replies import Reply
from seamark.simulation.world.connections import Connection, Peer, Request
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.network import Network
from seamark.simulation.world.transcript import Event
from seamark.wire.protocol.frames import encode_response
from seamark.wire.schema.schema import Message

# Stands in a request until its frame is read; never handed to a coordinator.
_UNREAD: Command = Heartbeat("", "", -1)
_LENGTH_BYTES = 4
# Longer than clients wait for a connection.
_SLOWEST_CONNECT_S = 15.0


class FramePeer(Peer, Protocol):
    """A client's end of a connection that carries frames."""

    def on_frame(self, connection: Connection, frame: bytes) -> None: ...


class WireRequest(Request):
    """``frame`` is the request without its length, later its answer; ``respond`` makes a reply a message."""

    __slots__ = ("frame", "respond", "version")

    def __init__(self, connection: Connection, correlation: int, frame: bytes) -> None:
        super().__init__(connection, correlation, _UNREAD)
        self.frame = frame
        self.version = 0
        self.respond: Callable[[Reply], Message] | None = None

    def copied_to(self, connection: Connection) -> WireRequest:
        return WireRequest(connection, self.correlation, self.frame)


class WireNetwork(Network):
    """``lives`` counts the starts of each node; a node is up if it is in ``up``."""

    def __init__(
        self, loop: EventLoop, rng: random.Random, events: list[Event], deliver: Callable[[Request], None]
    ) -> None:
        super().__init__(loop, rng, events, deliver)
        # Long enough to come after a rebalance; not so long that a lifetime has to wait for it.
        self.copy_late_ms = 6000
        # Per frame: the chance that its stream ends or hesitates in the middle of it. Per attempt to connect: that it
        # is refused, or leads nowhere for long.
        self.tear_chance = 0.0
        self.torn = 0
        self.refuse_chance = 0.0
        self.refused = 0
        self.up: set[int] = set()
        self.lives: dict[int, int] = {}

    def deliver_to(self, deliver: Callable[[Request], None]) -> None:
        """Have requests taken by whoever reads frames."""
        self._deliver = deliver

    # -- nodes

    def start_node(self, node: int) -> None:
        self.up.add(node)
        self.lives[node] = self.lives.get(node, 0) + 1

    def stop_node(self, node: int) -> None:
        self.up.discard(node)
        lost = [each for each in self._connections if each.node == node]
        self._connections = [each for each in self._connections if each.node != node]
        self._tell_most(lost)

    def connect_to(self, node: int, peer: FramePeer) -> Connection | None:
        """Return a connection, or None when nobody listens there."""
        if node not in self.up:
            return None
        if self.refuse_chance and self._rng.random() < self.refuse_chance:
            self.refused += 1
            return None
        connection = self.connect(peer)
        if connection is not None:
            connection.node = node
            connection.node_life = self.lives[node]
        return connection

    def connect_s(self) -> float:
        """How long it takes until a node accepts a connection or refuses it."""
        if self.refuse_chance and self._rng.random() < self.refuse_chance:
            self.refused += 1
            return self._rng.random() * _SLOWEST_CONNECT_S
        return self._delay() / 1000

    def is_served(self, connection: Connection) -> bool:
        return (
            super().is_served(connection)
            and connection.node in self.up
            and connection.node_life == self.lives[connection.node]
        )

    def flows(self, connection: Connection) -> bool:
        """Does what is sent over the connection arrive, and soon?"""
        latest_ms = max(connection.to_broker_ms, connection.to_peer_ms)
        return self.is_served(connection) and not connection.is_stalled and latest_ms <= self._loop.now_ms + 100

    # -- frames

    def send_frame(self, connection: Connection, correlation: int, frame: bytes) -> None:
        self.transmit(WireRequest(connection, correlation, frame[_LENGTH_BYTES:]))

    def answer(self, request: Request, reply: Reply) -> None:
        assert isinstance(request, WireRequest)
        assert request.respond is not None
        request.reply = reply
        self.answer_with(request, request.respond(reply))

    def answer_with(self, request: WireRequest, message: Message) -> None:
        """Take an answer that needs no coordinator."""
        connection = request.connection
        if connection.peer is not self._nobody:
            request.frame = encode_response(message, request.version, request.correlation)[_LENGTH_BYTES:]
        self._replied(request)

    def _send_back(self, connection: Connection, request: Request) -> None:
        if self.is_served(connection):
            super()._send_back(connection, request)

    def _hand_over(self, connection: Connection, request: Request) -> None:
        assert isinstance(request, WireRequest)
        connection.peer.on_frame(connection, request.frame)  # type: ignore[attr-defined]
