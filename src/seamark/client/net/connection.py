"""One connection to one broker: frames in and out, answers matched to requests in order, a time limit on each.

A broker answers the requests of a connection in the order in which it got them, so an answer belongs to the oldest
request; a correlation id that says otherwise ends the connection. So does a request that is not answered within its
time: nothing behind it could be trusted to come. A caller that stops waiting (its own deadline passed) only abandons
the answer; the connection lives on.

Which version of an API is spoken is the newest that both sides and the caller allow (A12, A14). Brokers from 2.4 to 4.x
are met: the range a broker announced decides, never its release.

Owned by the I/O loop; nothing here may be touched from another thread.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast

from seamark.client.errors import (
    ConnectionFailed,
    NetworkError,
    PeerProtocolError,
    RequestTimedOut,
    UnsupportedByBroker,
)
from seamark.client.net.frame_receiver import FrameReceiver
from seamark.client.timing import MonotonicClock
from seamark.errors import DecodeError
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.api_versions import ApiVersionsResponse
from seamark.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

# Unanswered requests on one connection. The callers' own limits are far below; this one only bounds memory.
MAX_IN_FLIGHT = 1000
_LARGEST_CORRELATION_ID = 2**31 - 1


class BrokerVersions:
    """The ranges that one broker announced."""

    __slots__ = ("_ranges", "address")

    def __init__(self, address: str, response: ApiVersionsResponse) -> None:
        self.address = address
        self._ranges = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    def has(self, request: type[Message], least: int = 0) -> bool:
        """Whether the broker speaks the API in version ``least`` or a newer one that this build has too."""
        return self._newest(request, least, None) is not None

    def choose(self, request: type[Message], *, least: int = 0, most: int | None = None) -> int:
        """The newest version within both ranges and the caller's; UnsupportedByBroker if there is none."""
        version = self._newest(request, least, most)
        if version is None:
            first, last = self._own(request, least, most)
            name = request.__name__.removesuffix("Request")
            offered = self._ranges.get(request.api_key)
            shown = None if offered is None else f"{offered[0]}-{offered[1]}"
            raise UnsupportedByBroker(self.address, name, f"{first}-{last}", shown)
        return version

    def _newest(self, request: type[Message], least: int, most: int | None) -> int | None:
        offered = self._ranges.get(request.api_key)
        if offered is None:
            return None
        first, last = self._own(request, least, most)
        version = min(last, offered[1])
        return version if version >= max(first, offered[0]) else None

    @staticmethod
    def _own(request: type[Message], least: int, most: int | None) -> tuple[int, int]:
        last = request.versions.last if most is None else min(most, request.versions.last)
        return max(least, request.versions.first), last


class _Waiting:
    """A request that has no answer yet."""

    __slots__ = ("correlation_id", "future", "name", "response", "timer", "version")

    def __init__(
        self, correlation_id: int, name: str, response: type[Message] | None, version: int, future: asyncio.Future[Any]
    ) -> None:
        self.correlation_id = correlation_id
        self.name = name
        # None for an answer that is handed over as it came.
        self.response = response
        self.version = version
        self.future = future
        self.timer: asyncio.TimerHandle | None = None


class Connection(asyncio.BufferedProtocol):
    """A protocol of asyncio's; made by ``handshake.open_connection``, which also negotiates and authenticates."""

    def __init__(
        self,
        address: str,
        client_id: str,
        loop: asyncio.AbstractEventLoop,
        clock: MonotonicClock = time.monotonic,
    ) -> None:
        self.address = address
        self.versions: BrokerVersions | None = None
        self.closed_with: NetworkError | None = None
        # When the broker would end an authenticated session (KIP-368), on the connection's clock.
        self.session_ends_at: float | None = None
        self.last_used = clock()
        # A broker that throttles us is sent nothing before this time (KIP-219).
        self.muted_until = 0.0
        self.is_throttle_said = False
        self.on_closed: Callable[[Connection], None] | None = None
        self._clock = clock
        self._client_id = client_id
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._receiver = FrameReceiver()
        self._waiting: deque[_Waiting] = deque()
        self._next_correlation_id = 0
        self._answer_count = 0
        self._setup_answers = 0
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._room = asyncio.Event()
        self._room.set()

    # state

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self.closed_with is None

    @property
    def socket(self) -> socket.socket | None:
        return None if self._transport is None else self._transport.get_extra_info("socket")

    @property
    def in_flight_count(self) -> int:
        return len(self._waiting)

    @property
    def is_worn_out(self) -> bool:
        """Whether new requests should go over a new connection, because this one's session is about to end."""
        return self.session_ends_at is not None and self._clock() >= self.session_ends_at

    @property
    def muted_s(self) -> float:
        """How much longer the broker is sent nothing; negative when that is over."""
        return self.muted_until - self._clock()

    @property
    def throttle(self) -> str:
        """What the broker asked of us, while that lasts."""
        left = self.muted_s
        return f"the broker throttles this client for another {left:.0f} s" if left > 0 else ""

    @property
    def has_served(self) -> bool:
        """Whether a request was answered that is no part of setting up the connection."""
        return self._answer_count > self._setup_answers

    def is_set_up(self) -> None:
        """Versions are known and we are who we say: from here on requests are those of callers."""
        self._setup_answers = self._answer_count

    @property
    def hint(self) -> str:
        """What is probably wrong when nothing but the first request was answered.

        A listener that wants authentication answers ApiVersions to anybody, and nothing else.
        """
        is_suspect = self._answer_count == 1 and self.session_ends_at is None
        return "; does this port require authentication (security.protocol)?" if is_suspect else ""

    # requests

    async def request(self, message: Message, response: type[M], version: int, timeout_s: float) -> M:
        """Send a request and give its decoded answer."""
        future = await self._send(message, response, version, timeout_s)
        answer: M = await future
        return answer

    async def start(self, message: Message, response: type[M], version: int, timeout_s: float) -> asyncio.Future[M]:
        """Write a request and give the future of its answer: for requests that must not overtake each other."""
        return await self._send(message, response, version, timeout_s)

    async def request_raw(self, message: Message, version: int, timeout_s: float) -> bytes | memoryview:
        """Send a request and give the frame of its answer: for one that may come in another version than was asked."""
        future = await self._send(message, None, version, timeout_s)
        frame: bytes | memoryview = await future
        return frame

    async def send_only(self, message: Message, version: int) -> None:
        """Send a request that the broker does not answer (Produce with acks=0)."""
        await self._until_writable()
        self._write(message, version)

    async def _send(
        self, message: Message, response: type[Message] | None, version: int, timeout_s: float
    ) -> asyncio.Future[Any]:
        if not self._may_write.is_set() or not self._room.is_set():
            try:
                await asyncio.wait_for(self._until_writable(), timeout_s)
            except TimeoutError:
                name = type(message).__name__.removesuffix("Request")
                raise RequestTimedOut(self.address, name, timeout_s) from None
        correlation_id = self._write(message, version)
        name = type(message).__name__.removesuffix("Request")
        waiting = _Waiting(correlation_id, name, response, version, self._loop.create_future())
        waiting.timer = self._loop.call_later(timeout_s, self._timed_out, waiting, timeout_s)
        self._waiting.append(waiting)
        if len(self._waiting) >= MAX_IN_FLIGHT:
            self._room.clear()
        return waiting.future

    async def _until_writable(self) -> None:
        while not (self._may_write.is_set() and self._room.is_set()):
            await self._may_write.wait()
            await self._room.wait()

    def _write(self, message: Message, version: int) -> int:
        if self.closed_with is not None:
            raise self.closed_with
        assert self._transport is not None
        correlation_id = self._next_correlation_id
        self._next_correlation_id = 0 if correlation_id == _LARGEST_CORRELATION_ID else correlation_id + 1
        frame = encode_request(message, version, correlation_id, self._client_id)
        self.last_used = self._clock()
        self._transport.write(frame)
        return correlation_id

    def _timed_out(self, waiting: _Waiting, seconds: float) -> None:
        error = RequestTimedOut(self.address, waiting.name, seconds, self.hint)
        if not waiting.future.done():
            waiting.future.set_exception(error)
        self.close(error)

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._receiver.received(nbytes)
        except DecodeError as error:
            # Whoever has answered before speaks Kafka's protocol, and sends something wrong in it.
            reason = f"a response {error.reason}" if self._answer_count else _foreign(self._receiver.first_bytes)
            self.close(PeerProtocolError(self.address, reason))
            return
        for frame in frames:
            self._answer(frame)

    def _answer(self, frame: bytes | memoryview) -> None:
        if not self._waiting:
            self.close(PeerProtocolError(self.address, "the broker sent a response without a request"))
            return
        waiting = self._waiting[0]
        correlation_id = int.from_bytes(frame[:4], "big")
        if len(frame) < 4 or correlation_id != waiting.correlation_id:
            reason = (
                f"the response to {waiting.name} has correlation id {correlation_id}, expected {waiting.correlation_id}"
            )
            self.close(PeerProtocolError(self.address, reason))
            return
        self._waiting.popleft()
        self._answer_count += 1
        self._room.set()
        self.last_used = self._clock()
        if waiting.timer is not None:
            waiting.timer.cancel()
        if waiting.future.done():
            return
        if waiting.response is None:
            waiting.future.set_result(frame)
            return
        try:
            _, message = decode_response(waiting.response, frame, waiting.version)
        except DecodeError as error:
            fault = PeerProtocolError(self.address, f"the response to {waiting.name} cannot be decoded ({error})")
            waiting.future.set_exception(fault)
            self.close(fault)
            return
        throttle_ms = getattr(message, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.muted_until = self._clock() + throttle_ms / 1000
        waiting.future.set_result(message)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        what = "the broker closed the connection" if exc is None else f"the connection was lost ({reason_of(exc)})"
        if self._waiting:
            what += f" while {self._waiting[0].name} was waiting for a response"
            what += self.hint
        self.close(ConnectionFailed(self.address, what))

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def close(self, error: NetworkError | None = None) -> None:
        """End the connection; what waits fails with ``error``. Does nothing the second time."""
        if self.closed_with is not None:
            return
        self.closed_with = error or ConnectionFailed(self.address, "the connection was closed by this client")
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if each.timer is not None:
                each.timer.cancel()
            if not each.future.done():
                each.future.set_exception(self._as_failure(self.closed_with))
        self._may_write.set()
        self._room.set()
        if self.on_closed is not None:
            self.on_closed(self)

    def _as_failure(self, error: NetworkError) -> NetworkError:
        """Requests behind one that timed out did not time out themselves: they lost their connection."""
        if isinstance(error, RequestTimedOut):
            return ConnectionFailed(self.address, f"the connection was closed because {error.reason}")
        return error

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"<Connection {self.address} {state}, {len(self._waiting)} in flight>"


def reason_of(error: BaseException) -> str:
    """An OSError in words, without its number; any other by its text."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower() if error.strerror[:1].isupper() else error.strerror
    return str(error) or type(error).__name__


def _foreign(first: bytes) -> str:
    """What the peer seems to speak, by the first bytes it sent."""
    if first[:4] == b"HTTP":
        return "the peer speaks HTTP, not Kafka's protocol"
    if first[:1] in (b"\x15", b"\x16") and first[1:2] == b"\x03":
        return "the peer speaks TLS: set security.protocol to SSL or SASL_SSL for this port"
    return f"the peer does not speak Kafka's protocol (it sent {first[:8]!r})"
