"""All connections of a node: how many there may be, what is held for them, and which have outstayed their welcome.

A client is a stranger until its first request is there whole, and with SASL until it is authenticated. It has
``FIRST_REQUEST_SECONDS`` for that. A connection that sends no request for ``connections.max.idle.ms`` is closed, as in
Kafka also while one waits for records or for other members. So is one whose client has not read its answers, or not
gone on with a request it began, for ``STANDSTILL_SECONDS``; a request that takes longer must come at
``LEAST_BYTES_PER_SECOND``.

When there are ``max.connections``, or no descriptors for more, a newcomer takes the place of the stranger that has
been there longest, else of a client that has been idle for ``STANDSTILL_SECONDS``, else it is closed at once, as Kafka
does. What is held of requests, and what clients have not read of their answers, is bounded in sum.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable
from typing import Protocol

from seamark.broker.clock import BrokerClock, Timers
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.sharing.file_limits import connection_descriptors, open_file_limit
from seamark.broker.sharing.held_bytes import HeldBytes
from seamark.broker.sharing.rare_line import RareLine
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.broker")

FIRST_REQUEST_SECONDS = 30.0
STANDSTILL_SECONDS = 30.0
LEAST_BYTES_PER_SECOND = 1 << 16
# What is held of the requests of all clients together that are not logged in, where they have to be.
MAX_UNKNOWN_BYTES = 16 << 20
# Answers that all clients together have not read; twice ``fetch.max.bytes`` where that is more.
MAX_UNREAD_BYTES = 128 << 20
# Closed connections that may still send what they had, and how long they may take; more are cut off.
MAX_LINGERING = 100
LINGER_SECONDS = 5.0
_SWEEP_SECONDS = 5.0
# Those that are idle are looked for no more often than this, however many newcomers there are.
_IDLE_SEARCH_SECONDS = 1.0


class HeldConnection(Protocol):
    """What is asked of a connection here, be it open or still shaking hands."""

    opened_at: float
    last_active: float
    # When the client stopped reading; None while it reads.
    stalled_since: float | None
    # What of the next frame has arrived, since when, and how often in a row a sweep found that it had not grown.
    partial_bytes: int
    partial_since: float
    swept: tuple[float, int]
    sweeps_without_progress: int
    # Whether the last sweep found that the client had ended the connection.
    was_gone: bool

    @property
    def peer_host(self) -> str: ...

    @property
    def is_reading(self) -> bool: ...

    @property
    def is_waiting(self) -> bool: ...

    @property
    def is_known(self) -> bool: ...

    @property
    def has_gone_unseen(self) -> bool: ...

    @property
    def is_expected_to(self) -> str: ...

    def close(self, reason: str, *, level: int = logging.WARNING) -> None: ...

    def abort(self, reason: str) -> None: ...

    def __hash__(self) -> int: ...


class ConnectedNode(Protocol):
    """What is used here of the node that the connections are to."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def clock(self) -> BrokerClock: ...

    @property
    def timers(self) -> Timers: ...


class Connections:
    """``of_all_nodes`` holds those of each node, these among them."""

    def __init__(self, node: ConnectedNode, of_all_nodes: list[Connections]) -> None:
        self._node = node
        self._of_all_nodes = of_all_nodes
        of_all_nodes.append(self)
        self._open: dict[HeldConnection, None] = {}
        # The longest there first.
        self._strangers: dict[HeldConnection, None] = {}
        self._idle: deque[HeldConnection] = deque()
        self._idle_searched = float("-inf")
        self._per_host: Counter[str] = Counter()
        self._is_sweeping = False
        # Clients that have to log in and have not done so get little.
        self._held = HeldBytes(self._max_held_bytes, node.clock.real_monotonic)
        self._held_of_unknown = HeldBytes(lambda: MAX_UNKNOWN_BYTES, node.clock.real_monotonic)
        # Bytes that clients have not read, the longest standstill first.
        self._unread: dict[HeldConnection, int] = {}
        self.unread_bytes = 0
        self._lingering: set[asyncio.Transport] = set()
        self.refused = 0
        self._shortage = RareLine(_log, node.clock)

    def __len__(self) -> int:
        return len(self._open)

    # -- who comes and goes

    def admit(self, connection: HeldConnection, descriptor: int) -> str | None:
        """Count a connection in; a text says why it must be closed instead."""
        settings = self._node.settings
        self._open[connection] = None
        self._strangers[connection] = None
        connection.opened_at = connection.last_active = self._node.clock.real_monotonic()
        self._per_host[connection.peer_host] += 1
        if not self._is_sweeping:
            self._is_sweeping = True
            self._node.timers.call_after(_SWEEP_SECONDS, self._sweep)
        if self._per_host[connection.peer_host] > settings["max.connections.per.ip"]:
            self.refused += 1
            return f"exceeded max.connections.per.ip={settings['max.connections.per.ip']}"
        if len(self._open) > settings["max.connections"]:
            if self._make_way(connection, [self]):
                return None
            self.refused += 1
            return f"exceeded max.connections={settings['max.connections']}"
        # The system gives out the lowest number that is free, so this is also how many files are open at least.
        if descriptor >= connection_descriptors():
            self._shortage.say(
                "running out of file descriptors: %d of %d are in use, and the rest is reserved for logs; raise "
                "the limit (ulimit -n) or lower max.connections",
                descriptor + 1,
                open_file_limit(),
            )
            if not self._make_way(connection, self._of_all_nodes):
                self.refused += 1
                return f"exceeded the available file descriptors (the limit is {open_file_limit()})"
        return None

    def know(self, connection: HeldConnection) -> None:
        """The client has made itself known."""
        self._strangers.pop(connection, None)
        held = self._held_of_unknown.take_out(connection)
        if held:
            self._held.change(connection, held)

    def forget(self, connection: HeldConnection) -> None:
        if connection in self._open:
            del self._open[connection]
            self._strangers.pop(connection, None)
            self._held.take_out(connection)
            self._held_of_unknown.take_out(connection)
            self.unread_bytes -= self._unread.pop(connection, 0)
            self._per_host[connection.peer_host] -= 1
            if not self._per_host[connection.peer_host]:
                del self._per_host[connection.peer_host]

    def _make_way(self, newcomer: HeldConnection, nodes: Iterable[Connections]) -> bool:
        """Close one, of these nodes, that can best be done without; False if there is none."""
        oldest = (next(iter(node._strangers), newcomer) for node in nodes)
        stranger = min(oldest, key=lambda connection: connection.opened_at)
        if stranger is not newcomer:
            stranger.close("had not sent a request yet when other clients needed a connection")
            return True
        idle = self._longest_idle()
        if idle is not None:
            idle.close(f"was idle for {STANDSTILL_SECONDS:.0f} seconds when other clients needed a connection")
            return True
        return False

    def _longest_idle(self) -> HeldConnection | None:
        now = self._node.clock.real_monotonic()
        if not self._idle and now - self._idle_searched >= _IDLE_SEARCH_SECONDS:
            self._idle_searched = now
            idle = [connection for connection in self._open if self._is_idle(connection, now)]
            # Those whose request waits for something, if no others.
            self._idle.extend(sorted(idle, key=lambda connection: (connection.is_waiting, connection.last_active)))
        while self._idle:
            connection = self._idle.popleft()
            if connection in self._open and self._is_idle(connection, now):
                return connection
        return None

    def _is_idle(self, connection: HeldConnection, now: float) -> bool:
        return now - connection.last_active > STANDSTILL_SECONDS

    # -- what is held for clients

    def hold(self, connection: HeldConnection, byte_count: int) -> None:
        """Take note of what is held of a connection's requests."""
        (self._held if connection.is_known else self._held_of_unknown).change(connection, byte_count)

    def _max_held_bytes(self) -> int:
        limit: int = self._node.settings["queued.max.request.bytes"]
        # By default the largest request there may be, and some room for those of the others.
        return limit if limit > 0 else self._node.settings.socket_request_max_bytes * 5 // 4

    def stalled(self, connection: HeldConnection, unread_bytes: int) -> None:
        """A client does not read; if all that is not read is too much, the one that has not read longest goes."""
        if connection.stalled_since is None:
            connection.stalled_since = self._node.clock.real_monotonic()
            self._unread[connection] = unread_bytes
            self.unread_bytes += unread_bytes
        most = max(MAX_UNREAD_BYTES, 2 * self._node.settings["fetch.max.bytes"])
        while self.unread_bytes > most:
            next(iter(self._unread)).abort("did not read its responses, and neither did other clients")

    def reads_again(self, connection: HeldConnection) -> None:
        connection.stalled_since = None
        self.unread_bytes -= self._unread.pop(connection, 0)

    def let_linger(self, transport: asyncio.Transport) -> None:
        """Give a connection that is being closed some time to send what it had; too many of these get none."""
        if len(self._lingering) >= MAX_LINGERING:
            transport.abort()
            return
        self._lingering.add(transport)
        self._node.loop.call_later(LINGER_SECONDS, self._cut_off, transport)

    def _cut_off(self, transport: asyncio.Transport) -> None:
        self._lingering.discard(transport)
        transport.abort()

    def close_all(self, reason: str) -> None:
        for connection in list(self._open):
            connection.close(reason, level=logging.INFO)

    # -- from time to time

    def _sweep(self) -> None:
        now = self._node.clock.real_monotonic()
        idle_seconds = self._node.settings["connections.max.idle.ms"] / 1000
        for connection in list(self._open):
            if connection.stalled_since is not None:
                if now - connection.stalled_since > STANDSTILL_SECONDS:
                    connection.abort(f"did not read its responses for {STANDSTILL_SECONDS:.0f} seconds")
                else:
                    self._look_whether_gone(connection, "disconnected without reading its responses")
            elif not connection.is_reading:
                # Where nobody waits for what was asked for, that must not go on for minutes.
                self._look_whether_gone(connection, "disconnected while its requests were waiting")
            elif now - connection.opened_at > FIRST_REQUEST_SECONDS and connection in self._strangers:
                # Whoever only looks whether the port is open is no reason to worry.
                reason = f"did not {connection.is_expected_to} within {FIRST_REQUEST_SECONDS:.0f} seconds"
                connection.close(reason, level=logging.INFO)
            elif connection.partial_bytes and connection.is_reading:
                self._look_for_progress(connection, now)
            elif 0 <= idle_seconds < now - connection.last_active:
                connection.close(f"was idle for {idle_seconds:.0f} seconds", level=logging.INFO)
        self._is_sweeping = bool(self._open)
        if self._is_sweeping:
            self._node.timers.call_after(min(_SWEEP_SECONDS, max(idle_seconds / 2, 0.1)), self._sweep)

    def _look_whether_gone(self, connection: HeldConnection, reason: str) -> None:
        """A client that only sends no more has the time between two looks for its last answers."""
        is_gone = connection.has_gone_unseen
        if is_gone and connection.was_gone:
            connection.abort(reason)
        connection.was_gone = is_gone

    def _look_for_progress(self, connection: HeldConnection, now: float) -> None:
        there = connection.partial_bytes
        if (connection.partial_since, there) != connection.swept:
            connection.swept = connection.partial_since, there
            connection.sweeps_without_progress = 0
        else:
            connection.sweeps_without_progress += 1
        late = now - connection.partial_since - STANDSTILL_SECONDS
        if connection.sweeps_without_progress * _SWEEP_SECONDS >= STANDSTILL_SECONDS:
            connection.close(f"stopped sending after {there} bytes of a request")
        elif there < late * LEAST_BYTES_PER_SECOND:
            seconds = now - connection.partial_since
            connection.close(f"sent {there} bytes of a request in {seconds:.0f} seconds, which is too slow")
