"""Connections between clients and the broker: ordered within one, free across them, and broken at any moment.

A message that is dropped takes the rest of its connection with it, as a broken TCP stream does; the client learns of
it later. A duplicated request is a client's repetition on another connection: the copy comes later and nobody waits
for its reply.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from seamark.coordinator.commands import Command
from seamark.coordinator.replies import Reply
from seamark.simulation.world.connections import Connection, Peer, Request
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.transcript import Event


class Nobody:
    """Sends repeated requests and takes no notice of what comes back."""

    name = "copy"

    def on_reply(self, connection: Connection, correlation: int, command: Command, reply: Reply) -> None:
        pass

    def on_disconnect(self, connection: Connection) -> None:
        pass


class Network:
    """``deliver`` takes requests at the broker's end. The chances are per message."""

    def __init__(
        self, loop: EventLoop, rng: random.Random, events: list[Event], deliver: Callable[[Request], None]
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._events = events
        self._deliver = deliver
        self._nobody = Nobody()
        self.latency_ms = 4
        self.drop_chance = 0.0
        self.copy_chance = 0.0
        self.delivered = 0
        self.dropped = 0
        self.copied = 0
        # How late a copy may be, and when the last one comes.
        self.copy_late_ms = 20_000
        self.last_copy_ms = 0
        # Counts the broker's processes; a connection to an earlier one leads nowhere.
        self.broker_life = 0
        self._connections: list[Connection] = []
        self.is_broker_up = False

    def connect(self, peer: Peer) -> Connection | None:
        """Return a connection, or None when nobody listens."""
        if not self.is_broker_up:
            return None
        connection = Connection(peer, self.broker_life)
        self._connections.append(connection)
        return connection

    def lose_broker(self) -> None:
        """The broker's process is gone; most clients learn of it at once, the others wait for answers in vain."""
        self.is_broker_up = False
        connections, self._connections = self._connections, []
        self._tell_most(connections)

    def _tell_most(self, connections: list[Connection]) -> None:
        for connection in connections:
            if connection.is_open and self._rng.random() < 0.8:
                self._loop.call_later(int(self._rng.random() * 300), self.break_connection, connection)

    def _delay(self) -> int:
        draw = self._rng.random()
        # One message in twenty is late by a multiple, so that connections overtake each other.
        return int(draw * self.latency_ms) if draw < 0.95 else int((draw - 0.95) * 400 * self.latency_ms)

    def send(self, connection: Connection, command: Command) -> int:
        """Send a request; return its correlation id."""
        correlation = connection.next_correlation
        connection.next_correlation = correlation + 1
        self.transmit(Request(connection, correlation, command))
        return correlation

    def transmit(self, request: Request) -> None:
        """Let a request go its way over its connection."""
        connection = request.connection
        if not connection.is_open or connection.is_stalled:
            return
        if self.drop_chance and self._rng.random() < self.drop_chance:
            self._stall(connection)
            return
        loop = self._loop
        arrival_ms = connection.to_broker_ms = max(loop.now_ms + self._delay(), connection.to_broker_ms)
        loop.call_at(arrival_ms, self._arrive, request)
        if self.copy_chance and self._rng.random() < self.copy_chance:
            self.copied += 1
            other = Connection(self._nobody, connection.broker_life, connection.node, connection.node_life)
            late_ms = int(self._rng.random() ** 3 * self.copy_late_ms)
            self.last_copy_ms = max(self.last_copy_ms, arrival_ms + late_ms)
            loop.call_at(arrival_ms + late_ms, self._arrive, request.copied_to(other))

    def _arrive(self, request: Request) -> None:
        connection = request.connection
        if connection.is_open and self.is_served(connection):
            self.delivered += 1
            connection.waiting.append(request)
            self._deliver(request)

    def is_served(self, connection: Connection) -> bool:
        """Is the process still there that the connection was made to?"""
        return connection.broker_life == self.broker_life and self.is_broker_up

    def answer(self, request: Request, reply: Reply) -> None:
        """Take the broker's reply; it leaves when those to earlier requests of the connection have left."""
        request.reply = reply
        self._replied(request)

    def _replied(self, request: Request) -> None:
        request.is_replied = True
        connection = request.connection
        waiting = connection.waiting
        while waiting and waiting[0].is_replied:
            self._send_back(connection, waiting.popleft())

    def _send_back(self, connection: Connection, request: Request) -> None:
        if not connection.is_open or connection.is_stalled or connection.peer is self._nobody:
            return
        if self.drop_chance and self._rng.random() < self.drop_chance:
            self._stall(connection)
            return
        arrival_ms = connection.to_peer_ms = max(self._loop.now_ms + self._delay(), connection.to_peer_ms)
        self._loop.call_at(arrival_ms, self._return, connection, request)

    def _return(self, connection: Connection, request: Request) -> None:
        if connection.is_open:
            self.delivered += 1
            self._hand_over(connection, request)

    def _hand_over(self, connection: Connection, request: Request) -> None:
        assert request.reply is not None
        connection.peer.on_reply(connection, request.correlation, request.command, request.reply)

    def _stall(self, connection: Connection) -> None:
        self.dropped += 1
        connection.is_stalled = True
        self._events.append((self._loop.now_ms, "dropped", connection.peer.name))
        self._loop.call_later(100 + int(self._rng.random() * 4000), self.break_connection, connection)

    def break_connection(self, connection: Connection) -> None:
        """End the connection for both sides; the broker's work on its requests goes on."""
        if connection.is_open:
            connection.is_open = False
            connection.peer.on_disconnect(connection)
