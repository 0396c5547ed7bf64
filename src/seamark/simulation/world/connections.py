"""A connection in simulated time, and the requests on it."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from seamark.coordinator.commands import Command
from seamark.coordinator.replies import Reply


class Peer(Protocol):
    """The client's end of a connection."""

    name: str

    def on_reply(self, connection: Connection, correlation: int, command: Command, reply: Reply) -> None: ...

    def on_disconnect(self, connection: Connection) -> None: ...


class Connection:
    """One TCP stream. ``waiting`` are its requests at the broker: replies leave in their order."""

    __slots__ = (
        "broker_life",
        "is_open",
        "is_stalled",
        "next_correlation",
        "node",
        "node_life",
        "peer",
        "to_broker_ms",
        "to_peer_ms",
        "waiting",
    )

    def __init__(self, peer: Peer, broker_life: int, node: int = 0, node_life: int = 0) -> None:
        self.peer = peer
        self.broker_life = broker_life
        self.node = node
        self.node_life = node_life
        self.is_open = True
        self.is_stalled = False
        self.next_correlation = 0
        self.to_broker_ms = 0
        self.to_peer_ms = 0
        self.waiting: deque[Request] = deque()


class Request:
    """Compared by identity; one per delivery, so a duplicated request is two of them."""

    __slots__ = (
        "command",
        "connection",
        "correlation",
        "is_replied",
        "reply",
    )

    def __init__(self, connection: Connection, correlation: int, command: Command) -> None:
        self.connection = connection
        self.correlation = correlation
        self.command = command
        # The reply may leave as soon as those to earlier requests of the connection have left.
        self.is_replied = False
        self.reply: Reply | None = None

    def copied_to(self, connection: Connection) -> Request:
        """The same request once more, over another connection."""
        return Request(connection, self.correlation, self.command)
