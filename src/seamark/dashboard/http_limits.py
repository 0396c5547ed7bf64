"""How many connections and requests there may be, and how long a client may take: the slow and the silent go first.

A connection waits for its client until a request has arrived whole, and again when it was answered; it waits at most
``REQUEST_S``, however the bytes trickle in. Where an address, or all of them together, have too many connections, the
one that has waited longest goes for the new one. So nobody is kept out by silence, and one address cannot push others
out. Requests at work are limited too; ``/healthz`` is answered beyond that limit.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from seamark.address_failures import network_of
from seamark.log_limits import LogLimits
from seamark.readable_log import readable_logger

HEALTH = "/healthz"
MOST_CONNECTIONS = 300
MOST_OF_AN_ADDRESS = 100
# Requests that are being answered, live pages among them; the rest of the connections is for those that wait.
MOST_REQUESTS = 200
REQUEST_S = 10.0
# A client that does not read what it asked for.
UNREAD_S = 30.0
# Request line and headers.
MAX_HEAD_BYTES = 16 << 10
_SWEEP_S = 1.0


class HttpConnections:
    """Owned by the server's event loop."""

    def __init__(self, most_of_an_address: int) -> None:
        self._most_of_an_address = most_of_an_address
        # By arrival, with the network that it came from.
        self._open: dict[BoundedHttp, str] = {}
        self._is_sweeping = False
        self._log_limits = LogLimits(readable_logger("seamark.dashboard"))

    def __len__(self) -> int:
        return len(self._open)

    @property
    def busy(self) -> int:
        """Connections whose request is being answered."""
        return sum(not connection.is_waiting for connection in self._open)

    def admit(self, connection: BoundedHttp) -> None:
        address = connection.client[0] if connection.client else "unknown"
        network = network_of(address)
        alike = [other for other, theirs in self._open.items() if theirs == network]
        if len(alike) >= self._most_of_an_address:
            self._end_longest_waiting(alike)
        if len(self._open) >= MOST_CONNECTIONS and not self._end_longest_waiting(list(self._open)):
            sentence = f"was refused a connection: all {MOST_CONNECTIONS} are in use"
            self._log_limits.write(logging.WARNING, address, sentence, about=f"the client at {address} ")
            self._end(connection)
            return
        self._open[connection] = network
        if not self._is_sweeping:
            self._is_sweeping = True
            connection.loop.call_later(_SWEEP_S, self._sweep, connection.loop)

    def forget(self, connection: BoundedHttp) -> None:
        self._open.pop(connection, None)

    def _end_longest_waiting(self, among: list[BoundedHttp]) -> bool:
        waiting = [connection for connection in among if connection.is_waiting]
        if waiting:
            self._end(min(waiting, key=lambda connection: connection.waiting_since))
        return bool(waiting)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self._open):
            unread_since = connection.unread_since
            if (connection.is_waiting and now - connection.waiting_since > REQUEST_S) or (
                unread_since is not None and now - unread_since > UNREAD_S
            ):
                self._end(connection)
        self._is_sweeping = bool(self._open)
        if self._is_sweeping:
            loop.call_later(_SWEEP_S, self._sweep, loop)

    def _end(self, connection: BoundedHttp) -> None:
        self.forget(connection)
        connection.transport.abort()


class BoundedHttp(H11Protocol):
    """One connection, as ``HttpConnections`` needs it."""

    def __init__(self, connections: HttpConnections, **given: Any) -> None:
        super().__init__(**given)
        self._connections = connections
        self.waiting_since = self.loop.time()
        # Since when its client has not read; None while it reads.
        self.unread_since: float | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the client has to send something before anything can be done."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connections.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.forget(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self.waiting_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self.unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.unread_since = None
        super().resume_writing()


class LimitedRequests:
    """The application, for as many requests at a time as there may be."""

    def __init__(self, app: ASGIApp, connections: HttpConnections) -> None:
        self._app = app
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._connections.busy > MOST_REQUESTS and scope.get("path") != HEALTH:
            refusal = PlainTextResponse("too many requests at once\n", 503, headers={"Retry-After": "5"})
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)
