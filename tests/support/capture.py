"""Raw bytes to a broker and back, for tests that compare byte for byte.

It knows only the outside of Kafka's protocol: a frame is a four-byte big-endian size and that many bytes. A request
begins with API key, version and correlation id; a response begins with the correlation id. It must never import
seamark, whose codec is what the bytes are compared with. Every wait has one deadline and every size a limit, so a
broker that hangs or talks nonsense gives a ``CaptureError`` and never a stuck test.
"""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Self

# Larger than any answer a test asks for, smaller than what would hurt: "HTTP" read as a size is over a gigabyte.
LARGEST_RESPONSE_BYTES = 128 << 20


class CaptureError(Exception):
    """The broker did not answer with a frame; the sentence says what it did instead."""


def framed(payload: bytes) -> bytes:
    """A payload with its size before it, as it travels."""
    return struct.pack(">i", len(payload)) + payload


def exchange(bootstrap: str, request_frame: bytes, timeout: float = 10.0) -> bytes:
    """Send one frame on a connection of its own and return the answering frame, both with their size."""
    with Wire(bootstrap, timeout=timeout) as wire:
        return wire.exchange(request_frame)


class Wire:
    """One blocking connection to a broker; ``timeout`` bounds connecting and each exchange as a whole."""

    def __init__(
        self, bootstrap: str, timeout: float = 10.0, largest_response_bytes: int = LARGEST_RESPONSE_BYTES
    ) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.peer = bootstrap
        self.timeout = timeout
        self.largest_response_bytes = largest_response_bytes
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout)
        except OSError as error:
            raise CaptureError(f"no connection to {bootstrap}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, request_frame: bytes) -> bytes:
        """Send a whole frame and return the whole frame that answers it.

        The answer's correlation id must be the request's. Requests that have no answer (Produce with acks 0) are for
        ``send``.
        """
        if len(request_frame) < 12 or struct.unpack_from(">i", request_frame)[0] != len(request_frame) - 4:
            raise ValueError("a request frame is its four-byte size and that many bytes, with at least eight of header")
        deadline = time.monotonic() + self.timeout
        self.send(request_frame)
        answer = self.receive(max(0.001, deadline - time.monotonic()))
        asked, answered = request_frame[8:12], answer[4:8]
        if asked != answered:
            raise CaptureError(f"{self.peer} answered correlation id {answered.hex()} to request {asked.hex()}")
        return answer

    def send(self, raw: bytes) -> None:
        """Send bytes as they are, whole frames or not."""
        self._socket.settimeout(self.timeout)
        try:
            self._socket.sendall(raw)
        except OSError as error:
            raise CaptureError(f"{self.peer} took no more bytes: {error}") from error

    def receive(self, timeout: float | None = None) -> bytes:
        """The next whole frame, its size included."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        size = self._read(4, deadline, "a frame's size")
        (length,) = struct.unpack(">i", size)
        if not 0 <= length <= self.largest_response_bytes:
            raise CaptureError(
                f"{self.peer} announced a frame of {length} bytes; at most {self.largest_response_bytes}"
            )
        return size + self._read(length, deadline, "a frame")

    def is_closed_by_peer(self, timeout: float | None = None) -> bool:
        """Whether the broker closes the connection in that time without sending anything more."""
        self._socket.settimeout(self.timeout if timeout is None else timeout)
        try:
            return self._socket.recv(1, socket.MSG_PEEK) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    def _read(self, count: int, deadline: float, what: str) -> bytes:
        received = bytearray()
        while len(received) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise CaptureError(f"{self.peer} sent {len(received)} of {count} bytes of {what} in time")
            self._socket.settimeout(left)
            try:
                piece = self._socket.recv(min(count - len(received), 1 << 20))
            except TimeoutError:
                continue
            except OSError as error:
                raise CaptureError(f"{self.peer} broke off after {len(received)} of {count} bytes of {what}") from error
            if not piece:
                raise CaptureError(f"{self.peer} closed after {len(received)} of {count} bytes of {what}")
            received += piece
        return bytes(received)

    def detach(self) -> socket.socket:
        """The connection itself, for who reads it in another way; closing it is then theirs."""
        return self._socket

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def is_ended(client: socket.socket) -> bool:
    """Whether the server has ended a connection, as far as is known now."""
    client.settimeout(0)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
