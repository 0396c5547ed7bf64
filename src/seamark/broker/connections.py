"""All connections of a node: how many there may be, and which have outstayed their welcome.

One too many is closed at once, as Kafka does. A connection without a request for ``connections.max.idle.ms`` is
closed, and so is one whose client has not read its answers, or not gone on with a request it began, for
``STANDSTILL_SECONDS``. What is held for clients that stand still is bounded in sum as well: beyond the limits the
one that has not read longest, or that sent the last part of too many unfinished requests, has to go.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.broker.connection import Connection
    from seamark.broker.node import Node

STANDSTILL_SECONDS = 30.0
# Answers that all clients together have not read.
MAX_UNREAD_BYTES = 256 << 20
_SWEEP_SECONDS = 5.0


class Connections:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._open: dict[Connection, None] = {}
        self._per_host: Counter[str] = Counter()
        self._is_sweeping = False
        self._partial_bytes = 0
        # Bytes that clients have not read, the longest standstill first.
        self._unread: dict[Connection, int] = {}
        self.refused = 0

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> str | None:
        """Count a connection in; a text says why it must be closed instead."""
        settings = self._node.settings
        self._open[connection] = None
        connection.last_active = self._node.clock.real_monotonic()
        self._per_host[connection.peer_host] += 1
        if not self._is_sweeping:
            self._is_sweeping = True
            self._node.timers.call_after(_SWEEP_SECONDS, self._sweep)
        if len(self._open) > settings["max.connections"]:
            self.refused += 1
            return f"was one more than max.connections={settings['max.connections']}"
        if self._per_host[connection.peer_host] > settings["max.connections.per.ip"]:
            self.refused += 1
            return f"was one more from its address than max.connections.per.ip={settings['max.connections.per.ip']}"
        return None

    def forget(self, connection: Connection) -> None:
        if connection in self._open:
            del self._open[connection]
            self.count_partial(connection, 0)
            self._unread.pop(connection, None)
            self._per_host[connection.peer_host] -= 1
            if not self._per_host[connection.peer_host]:
                del self._per_host[connection.peer_host]

    def count_partial(self, connection: Connection, byte_count: int) -> None:
        """Take note of what a connection holds of an unfinished request; too much in sum closes it."""
        self._partial_bytes += byte_count - getattr(connection, "partial_bytes", 0)
        connection.partial_bytes = byte_count
        if self._partial_bytes > self._max_partial_bytes and byte_count:
            connection.close(f"had sent a part of a request when all parts came to {self._partial_bytes} bytes")

    @property
    def _max_partial_bytes(self) -> int:
        limit: int = self._node.settings["queued.max.request.bytes"]
        return limit if limit > 0 else 4 * self._node.settings.socket_request_max_bytes

    def stalled(self, connection: Connection, unread_bytes: int) -> None:
        """A client does not read; if all that is not read is too much, the one that has not read longest goes."""
        if connection.stalled_since is None:
            connection.stalled_since = self._node.clock.real_monotonic()
            self._unread[connection] = unread_bytes
        while sum(self._unread.values()) > MAX_UNREAD_BYTES:
            next(iter(self._unread)).abort("did not read its answers, and others do not either")

    def reads_again(self, connection: Connection) -> None:
        connection.stalled_since = None
        self._unread.pop(connection, None)

    def close_all(self, reason: str) -> None:
        for connection in list(self._open):
            connection.close(reason)

    def _sweep(self) -> None:
        now = self._node.clock.real_monotonic()
        idle_seconds = self._node.settings["connections.max.idle.ms"] / 1000
        for connection in list(self._open):
            if connection.stalled_since is not None:
                if now - connection.stalled_since > STANDSTILL_SECONDS:
                    connection.abort(f"did not read its answers for {STANDSTILL_SECONDS:.0f} seconds")
            elif getattr(connection, "partial_bytes", 0) and not connection.is_waiting:
                self._look_for_progress(connection)
            elif 0 <= idle_seconds < now - connection.last_active and not connection.is_waiting:
                connection.close(f"was idle for {idle_seconds:.0f} seconds")
        self._is_sweeping = bool(self._open)
        if self._is_sweeping:
            self._node.timers.call_after(min(_SWEEP_SECONDS, max(idle_seconds / 2, 0.1)), self._sweep)

    def _look_for_progress(self, connection: Connection) -> None:
        if connection.partial_bytes != connection.swept_bytes:
            connection.swept_bytes = connection.partial_bytes
            connection.sweeps_without_progress = 0
            return
        connection.sweeps_without_progress += 1
        if connection.sweeps_without_progress * _SWEEP_SECONDS >= STANDSTILL_SECONDS:
            connection.close(f"did not go on with a request of which {connection.partial_bytes} bytes were there")
