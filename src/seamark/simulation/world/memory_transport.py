"""A connection in memory under asyncio's protocols: what a socket does, good and bad, between a client and a node.

A client writes frames and is given bytes. How they are cut is chance, as on a real stream; a torn connection breaks in
the middle of a frame, or is closed by the other side with nothing more to come.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from seamark.coordinator.commands import Command
from seamark.coordinator.replies import Reply
from seamark.simulation.world.connections import Connection
from seamark.simulation.world.virtual_loop import Call, Connect, VirtualLoop
from seamark.simulation.world.wire_network import WireNetwork

_LENGTH_BYTES = 4
# Of the requests that only a group's coordinator is sent: OffsetCommit and OffsetFetch, JoinGroup to SyncGroup.
_GROUP_APIS = frozenset({8, 9, 11, 12, 13, 14})
# One frame in so many comes in two pieces.
_PIECES_CHANCE = 0.05
# For so long the second half of a frame may be on its way.
_LONGEST_HOLD_S = 3.0


class MemoryTransport(asyncio.Transport):
    """The client's end; implements ``wire_network.FramePeer``. ``connection`` is set when it is open."""

    connection: Connection

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        network: WireNetwork,
        rng: random.Random,
        protocol: asyncio.BufferedProtocol,
    ) -> None:
        super().__init__()
        self.name = name
        self._loop = loop
        self._network = network
        self._rng = rng
        self._protocol = protocol
        self._is_closing = False
        # What has arrived and is held back, behind the first half of a frame.
        self._held: deque[bytes] = deque()
        self._letting_go: Call | None = None
        # Whether a request for a group went over it.
        self.carries_group = False

    # -- the client's side

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing:
            return
        frame = bytes(data)
        if int.from_bytes(frame[:_LENGTH_BYTES], "big") != len(frame) - _LENGTH_BYTES:
            raise AssertionError(f"{self.name} writes {len(frame)} bytes that are no frame")
        if int.from_bytes(frame[4:6], "big") in _GROUP_APIS:
            self.carries_group = True
        self._network.send_frame(self.connection, int.from_bytes(frame[8:12], "big"), frame)

    def abort(self) -> None:
        self._close(None)

    close = abort

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ARG002
        return default

    def _close(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.connection.is_open = False
            if self._letting_go is not None:
                self._letting_go.cancel()
            self._loop.call_soon(self._protocol.connection_lost, error)

    # -- the network's side

    def on_frame(self, connection: Connection, frame: bytes) -> None:  # noqa: ARG002
        self._loop.enter(self._arrived, len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)

    def on_disconnect(self, connection: Connection) -> None:  # noqa: ARG002
        self._loop.enter(self._disconnected)

    def on_reply(self, connection: Connection, correlation: int, command: Command, reply: Reply) -> None:
        raise AssertionError(f"only frames travel here: {connection} {correlation} {command} {reply}")

    def _disconnected(self) -> None:
        # Some learn of it by a reset, the others by an orderly end.
        if self._rng.random() < 0.5:
            self._close(ConnectionResetError(104, "Connection reset by peer"))
        else:
            self._end_of_stream()

    def _end_of_stream(self) -> None:
        if not self._is_closing and not self._protocol.eof_received():
            self._close(None)

    def _arrived(self, data: bytes) -> None:
        if self._is_closing:
            return
        if self._held:
            self._held.append(data)
            return
        tear_chance = self._network.tear_chance
        draw = self._rng.random()
        if draw < tear_chance:
            self._tear(data, draw / tear_chance)
        elif draw > 1 - _PIECES_CHANCE:
            middle = self._inside(data)
            self._give(data[:middle])
            self._give(data[middle:])
        else:
            self._give(data)

    def _inside(self, data: bytes) -> int:
        return 1 + int(self._rng.random() * (len(data) - 1))

    def _tear(self, data: bytes, draw: float) -> None:
        """The stream ends or hesitates in the middle of a frame, or ends in front of it."""
        self._network.torn += 1
        middle = self._inside(data)
        if draw < 0.4:
            self._give(data[:middle])
            self._held.append(data[middle:])
            self._letting_go = self._loop.call_later(self._rng.random() ** 3 * _LONGEST_HOLD_S, self._let_go)
        elif draw < 0.7:
            self._give(data[:middle])
            self._network.break_connection(self.connection)
        else:
            self._end_of_stream()

    def _let_go(self) -> None:
        while self._held:
            self._give(self._held.popleft())

    def _give(self, data: bytes) -> None:
        protocol, start = self._protocol, 0
        while start < len(data) and not self._is_closing:
            room = memoryview(protocol.get_buffer(-1))
            count = min(len(room), len(data) - start)
            room[:count] = data[start : start + count]
            protocol.buffer_updated(count)
            start += count


def opener(name: str, network: WireNetwork, rng: random.Random, opened: list[MemoryTransport]) -> Connect:
    """How the processes of one client open connections; those are added to ``opened``."""

    async def connect(
        loop: VirtualLoop, make_protocol: Callable[[], asyncio.BaseProtocol], host: str
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        await asyncio.sleep(network.connect_s())
        protocol = make_protocol()
        assert isinstance(protocol, asyncio.BufferedProtocol)
        transport = MemoryTransport(name, loop, network, rng, protocol)
        connection = network.connect_to(int(host.rpartition("-")[2]), transport)
        if connection is None:
            raise ConnectionRefusedError(111, "Connection refused")
        transport.connection = connection
        opened.append(transport)
        protocol.connection_made(transport)
        return transport, protocol

    return connect
