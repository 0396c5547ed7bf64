"""One request and its answer on an open connection: version, throttling, the caller's deadline, a count per API.

The caller's deadline and the request's own timeout are two things: when the caller has waited long enough the answer is
abandoned and the connection lives on; when the broker has not answered within its timeout the connection ends.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, TypeVar

from seamark.client.config.config import ClientConfig
from seamark.client.errors import ConnectionFailed, RequestTimedOut
from seamark.client.net.client_log import ClientLog
from seamark.client.net.connection import Connection
from seamark.client.net.node import Place
from seamark.client.requests import Request, VersionedRequest
from seamark.client.timing import Deadline
from seamark.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

# What one request asks about, unless its call says otherwise. Each thing may bring its topic along, so this is at most
# twice as many elements; the embedded broker takes 32,768 and Kafka changes 10,000 at once.
MOST_AT_ONCE = 10_000

# A longer wait than brokers impose by quota in one answer is worth a line.
_LONG_THROTTLE_S = 10.0


class AnyBroker(Protocol):
    """What the parts of a client are given of it, so that they need not know the client itself."""

    @property
    def config(self) -> ClientConfig: ...

    def causes(self) -> dict[str, str]: ...

    async def send_to_any(
        self,
        message: Request,
        response: type[M],
        *,
        deadline: Deadline,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> M: ...


class Exchanges:
    """The exchanges of one client. Owned by the I/O loop."""

    def __init__(self, log: ClientLog) -> None:
        self.counts: dict[str, int] = {}
        self._log = log

    def made(
        self, connection: Connection, message: Request, min_version: int, max_version: int | None
    ) -> tuple[Message, int]:
        """The message to send and its version."""
        assert connection.versions is not None
        kind = message.request if isinstance(message, VersionedRequest) else type(message)
        version = connection.versions.choose(kind, least=min_version, most=max_version)
        name = kind.__name__.removesuffix("Request")
        self.counts[name] = self.counts.get(name, 0) + 1
        return (message.make(version) if isinstance(message, VersionedRequest) else message), version

    async def run(
        self,
        connection: Connection,
        message: Request,
        response: type[M],
        deadline: Deadline,
        timeout_s: float,
        min_version: int,
        max_version: int | None,
        place: Place | None = None,
    ) -> tuple[M, int]:
        """Send and wait; gives the answer and its version. With a ``place``, not before those who stand in front."""
        made, version = self.made(connection, message, min_version, max_version)
        try:
            # A deadline far behind the request's own timeout cannot come first: no timer is needed for it.
            async with asyncio.timeout(None if deadline.remaining >= timeout_s + 60 else deadline.remaining):
                if place is not None:
                    await place.reached()
                await self.wait_for_throttle(connection)
                answer = await connection.start(made, response, version, timeout_s)
                if place is not None:
                    place.leave()
                return await answer, version
        except TimeoutError:
            name = type(made).__name__.removesuffix("Request")
            hint = f"; {connection.throttle}" if connection.throttle else connection.hint
            raise RequestTimedOut(connection.address, name, deadline.seconds, hint) from None

    async def start(
        self, connection: Connection, message: Message, response: type[M] | None, min_version: int, timeout_s: float
    ) -> asyncio.Future[M] | None:
        """Write a request; gives the future of its answer, or None for one that has no ``response``."""
        made, version = self.made(connection, message, min_version, None)
        try:
            async with asyncio.timeout(timeout_s):
                await self.wait_for_throttle(connection)
        except TimeoutError:
            name = type(made).__name__.removesuffix("Request")
            reason = f"{name} was not sent within {timeout_s:g} s: {connection.throttle}"
            raise ConnectionFailed(connection.address, reason) from None
        if response is None:
            await connection.send_only(made, version)
            return None
        return await connection.start(made, response, version, timeout_s)

    async def wait_for_throttle(self, connection: Connection) -> None:
        """Wait as long as the broker asked us to (KIP-219); it is for the caller to bound that."""
        # Asked again after each wait: an answer that came meanwhile may have prolonged it.
        while (wait := connection.muted_s) > 0 and connection.is_open:
            if wait > _LONG_THROTTLE_S and not connection.is_throttle_said:
                connection.is_throttle_said = True
                text = f"{connection.address}: {connection.throttle}; requests that exceed their timeout fail"
                self._log.say(logging.WARNING, "throttled", text, address=connection.address, seconds=int(wait))
            await asyncio.sleep(wait)
