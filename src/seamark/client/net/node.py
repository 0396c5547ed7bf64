"""The connection to one node, made when it is needed and made anew when it is gone, not faster than the backoff allows.

Everybody who needs the node while it is being connected waits for the same attempt. A failure is remembered, so that an
operation whose deadline passes can say why. A session that is about to end is replaced: the old connection finishes
what it has in flight and is closed.

Where order counts (of two commits the later one must win, batches of a partition must not overtake each other),
requests to a node are written in the order in which they were made. A request may have to wait for the connection, for
the end of a throttle, or for room in the socket, and one that comes later can find all of that done first. So it takes
its place in ``SendingOrder`` before it waits for anything and is written when it is the first; one that gives up leaves
its place. Answers are waited for outside of the line.

Owned by the I/O loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from seamark.client.cluster_view import Node
from seamark.client.errors import ConnectionFailed, NetworkError
from seamark.client.net.connection import Connection
from seamark.client.net.handshake import ConnectionRecipe, open_connection
from seamark.client.timing import Deadline, ExponentialBackoff
from seamark.errors import ClosedError

# Called with the node connection: when an open connection ended by itself, when an attempt begins, when it succeeded.
Told = Callable[["NodeConnection"], None]


class NodeConnection:
    """One (node, purpose); ``connection_id`` is Kafka's number for it (B25)."""

    def __init__(
        self,
        connection_id: int,
        node: Node,
        recipe: ConnectionRecipe,
        reconnect: ExponentialBackoff,
        setup_timeout: ExponentialBackoff,
        on_lost: Told | None = None,
        on_attempt: Told | None = None,
        on_open: Told | None = None,
    ) -> None:
        self.connection_id = connection_id
        self.node = node
        self.connection: Connection | None = None
        # What the last attempt failed with, or None; and how far the present one has got.
        self.last_error: NetworkError | None = None
        self.progress = "not connected yet"
        self.opened_count = 0
        self.order = SendingOrder()
        self._recipe = recipe
        self._reconnect = reconnect
        self._setup_timeout = setup_timeout
        self._on_lost = on_lost
        self._on_attempt = on_attempt
        self._on_open = on_open
        self._failures = 0
        self._not_before = 0.0
        self._opening: asyncio.Task[Connection] | None = None
        self._retired: set[Connection] = set()
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        return self.connection is not None and self.connection.is_open and not self.connection.is_worn_out

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def is_connecting(self) -> bool:
        return self._opening is not None

    @property
    def is_backing_off(self) -> bool:
        return not self.is_ready and self._recipe.clock() < self._not_before

    @property
    def in_flight_count(self) -> int:
        return 0 if self.connection is None else self.connection.in_flight_count

    def reason(self) -> str:
        """Why the node is not usable at the moment, in a few words."""
        if self.is_ready and self.connection is not None:
            return self.connection.throttle or f"connected, but no response yet{self.connection.hint}"
        if self.last_error is not None and (self._opening is None or self.is_backing_off):
            return self.last_error.reason
        return self.progress if self.last_error is None else f"{self.progress}; last error: {self.last_error.reason}"

    def start(self) -> asyncio.Task[Connection]:
        """The attempt under way, begun if there is none; awaiting it must be shielded."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
            # An attempt that nobody waits for any more may fail without a warning.
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
            if self._on_attempt is not None:
                self._on_attempt(self)
        return self._opening

    async def ready(self, deadline: Deadline) -> Connection:
        """An open connection; ConnectionFailed with the reason when there is none by the deadline."""
        if self.is_ready:
            assert self.connection is not None
            return self.connection
        task = self.start()
        await asyncio.wait({task}, timeout=deadline.remaining)
        if task.cancelled():
            raise ClosedError("the client was closed while it was connecting")
        if not task.done():
            raise ConnectionFailed(self.node.address, f"not usable within {deadline.seconds:g} s ({self.reason()})")
        return task.result()

    async def _open(self) -> Connection:
        try:
            wait = self._not_before - self._recipe.clock()
            if wait > 0:
                self.progress = "waiting to reconnect"
                await asyncio.sleep(wait)
            # The first attempt has the configured time, each failure gives the next one more.
            setup_s = self._setup_timeout.wait_ms(self._failures + 1) / 1000
            connection = await open_connection(self.node, self._recipe, setup_s, self._note)
        except NetworkError as error:
            self._failed(error)
            raise
        finally:
            self._opening = None
        if self._is_closed:
            connection.close()
            raise ConnectionFailed(self.node.address, "the client was closed")
        if connection.closed_with is not None:
            self._failed(connection.closed_with)
            raise connection.closed_with
        self._retire()
        connection.on_closed = self._closed
        self.connection = connection
        self.opened_count += 1
        self.last_error = None
        self.progress = "connected"
        if self._on_open is not None:
            self._on_open(self)
        return connection

    def _note(self, stage: str) -> None:
        self.progress = stage

    def _failed(self, error: NetworkError) -> None:
        self.last_error = error
        self._failures += 1
        self._not_before = self._recipe.clock() + self._reconnect.wait_ms(self._failures) / 1000

    def _retire(self) -> None:
        """Let the present connection finish what it has in flight, then close it."""
        old, self.connection = self.connection, None
        if old is None or not old.is_open:
            return
        if not old.in_flight_count:
            old.close()
            return
        self._retired.add(old)
        old.on_closed = self._retired.discard
        asyncio.get_running_loop().call_later(self._recipe.request_timeout_s, old.close)

    def _closed(self, connection: Connection) -> None:
        if connection is not self.connection:
            return
        self.connection = None
        if self._is_closed:
            return
        assert connection.closed_with is not None
        if connection.has_served:
            # Not before: a peer that opens every connection and ends it at the first request has to be waited for too.
            self._failures = 0
        self._failed(connection.closed_with)
        if self._on_lost is not None:
            self._on_lost(self)

    def move_to(self, node: Node) -> None:
        """The node is known under another address now: the next connection goes there."""
        if (node.host, node.port) != (self.node.host, self.node.port):
            self.disconnect("the broker's address changed")
            self._not_before = 0.0
            self._failures = 0
        self.node = node

    def disconnect(self, reason: str) -> None:
        """Close the connection on our own account: no backoff follows."""
        connection, self.connection = self.connection, None
        if connection is not None:
            if connection.has_served:
                self._failures = 0
            connection.close(ConnectionFailed(self.node.address, f"the connection was closed: {reason}"))

    def close(self) -> None:
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
        self.disconnect("the client was closed")
        for old in list(self._retired):
            old.close()

    def __repr__(self) -> str:
        return f"<NodeConnection {self.connection_id} {self.node.address}: {self.progress}>"


class Place:
    """One request's place in the line; taken when it is made."""

    __slots__ = ("_is_first", "_line")

    def __init__(self, line: deque[Place]) -> None:
        self._line = line
        self._is_first = asyncio.Event()
        line.append(self)
        if line[0] is self:
            self._is_first.set()

    async def reached(self) -> None:
        """Wait until everybody before has been served or has gone."""
        await self._is_first.wait()

    def leave(self) -> None:
        """Let the next one go; does nothing the second time."""
        if self in self._line:
            self._line.remove(self)
            if self._line:
                self._line[0]._is_first.set()


class SendingOrder:
    """The line in front of one connection."""

    __slots__ = ("_line",)

    def __init__(self) -> None:
        self._line: deque[Place] = deque()

    def take_place(self) -> Place:
        return Place(self._line)
