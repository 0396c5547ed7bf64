"""A connection of a hostile client that always has several requests under way, and reads all answers.

It sends and receives what is possible, in any order: a client that blocks in sending while the broker waits for it to
read would only attack itself.
"""

from __future__ import annotations

import select
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator

from benchmarks.hostile_parts.login import Address

# Requests that are sent before their answers are waited for.
DEPTH = 4
_READ_BYTES = 1 << 18
_PATIENCE_SECONDS = 10.0
# An answer of a broker; whatever announces more is not one.
_LARGEST_ANSWER_BYTES = 1 << 30


class Pipeline:
    """Sends what ``frames`` gives without end, and counts in ``done``."""

    def __init__(self, address: Address, frames: Iterator[bytes], done: Counter[str]) -> None:
        self._socket = address.connect(_PATIENCE_SECONDS).wire.detach()
        self._socket.setblocking(False)
        self._frames = frames
        self._done = done
        self._heard: Callable[[bytes], None] | None = None
        # What is not sent yet of the requests that are under way.
        self._to_send: deque[memoryview] = deque()
        self._under_way = 0
        self._answer = bytearray()
        self._left = 0
        done["connections"] += 1

    def advance(self, seconds: float, heard: Callable[[bytes], None] | None) -> None:
        """Work for so long; ``heard`` is given each answer. Raise ``OSError`` when the broker closes the connection."""
        self._heard = heard
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            while self._under_way < DEPTH:
                self._to_send.append(memoryview(next(self._frames)))
                self._under_way += 1
            writing = [self._socket] if self._to_send else []
            readable, writable, _ = select.select([self._socket], writing, [], left)
            if writable:
                self._send()
            if readable:
                self._receive()

    def _send(self) -> None:
        rest = self._to_send.popleft()
        rest = rest[self._socket.send(rest) :]
        if rest:
            self._to_send.appendleft(rest)
        else:
            self._done["requests"] += 1

    def _receive(self) -> None:
        piece = memoryview(self._socket.recv(_READ_BYTES))
        if not piece:
            raise ConnectionError("closed by the broker")
        self._done["answer_bytes"] += len(piece)
        while piece:
            piece = piece[self._take(piece) :]

    def _take(self, piece: memoryview) -> int:
        """How much of the piece belongs to the present answer, and note its end."""
        if len(self._answer) < 4:
            used = min(4 - len(self._answer), len(piece))
            self._answer += piece[:used]
            if len(self._answer) == 4:
                (self._left,) = struct.unpack(">i", self._answer)
                if not 0 < self._left <= _LARGEST_ANSWER_BYTES:
                    raise ConnectionError(f"an answer of {self._left} bytes was announced")
            return used
        used = min(self._left, len(piece))
        self._left -= used
        if self._heard is not None:
            self._answer += piece[:used]
        if self._left == 0:
            self._done["answers"] += 1
            self._under_way -= 1
            if self._heard is not None:
                self._heard(bytes(self._answer))
            self._answer.clear()
        return used

    def close(self) -> None:
        self._socket.close()
