"""The port behind which a group member of a lifetime lives, and the ground all simulated clients stand on.

A lifetime drives members only through ``Member``; the model in ``member`` is one implementation, a real client's core
can be another. ``Client`` owns a connection: it is made when something is sent, and made again after a break.
"""

from __future__ import annotations

import random
from typing import Protocol

from seamark.coordinator.commands import Command
from seamark.coordinator.replies import Reply
from seamark.simulation.world.connections import Connection
from seamark.simulation.world.event_loop import EventLoop
from seamark.simulation.world.network import Network


class Member(Protocol):
    """One member of a group as a lifetime sees it."""

    name: str
    group_id: str
    instance_id: str | None

    @property
    def is_running(self) -> bool: ...

    @property
    def is_settled(self) -> bool:
        """Does the member hold an assignment that nothing speaks against?"""

    @property
    def is_turned_away(self) -> bool:
        """Did the group refuse it for want of room?"""

    @property
    def member_id(self) -> str: ...

    @property
    def generation(self) -> int: ...

    @property
    def owned(self) -> list[tuple[str, int]]: ...

    @property
    def topics(self) -> tuple[str, ...]: ...

    def start(self) -> None:
        """Begin as a new process: nothing is remembered but the configuration."""

    def crash(self) -> None:
        """End without a word."""

    def leave(self) -> None:
        """End in an orderly way."""

    def pause(self, duration_ms: int) -> None:
        """Stand still, as in a long garbage collection, and go on as if nothing had been."""

    def disconnect(self) -> bool:
        """Lose the connection; False if there is none."""

    def fall_silent(self) -> None:
        """Send nothing more, so that what is under way can come to its end."""


class Client:
    """Sends over one connection at a time."""

    def __init__(self, name: str, loop: EventLoop, rng: random.Random, network: Network) -> None:
        self.name = name
        self._loop = loop
        self._rng = rng
        self._network = network
        self._connection: Connection | None = None
        self.is_silent = False

    def _send(self, command: Command) -> int:
        """Send and return the correlation id, or -1 when there is nobody to send to."""
        if self.is_silent:
            return -1
        connection = self._connection
        if connection is None:
            connection = self._connection = self._network.connect(self)
            if connection is None:
                return -1
        return self._network.send(connection, command)

    def disconnect(self) -> bool:
        connection = self._connection
        if connection is None:
            return False
        self._network.break_connection(connection)
        return True

    def _hang_up(self) -> None:
        """Drop the connection without being told about it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.is_open = False

    def fall_silent(self) -> None:
        self.is_silent = True

    def on_reply(self, connection: Connection, correlation: int, command: Command, reply: Reply) -> None:
        raise NotImplementedError

    def on_disconnect(self, connection: Connection) -> None:
        raise NotImplementedError
