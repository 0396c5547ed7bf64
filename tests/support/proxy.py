"""A TCP proxy that cuts, delays, stalls and half-closes what goes through it: a bad network in front of a broker.

    with Proxy(broker_port) as proxy:
        broker must advertise proxy.port, and clients connect to it
        proxy.cut()

Each of the faults acts on the connections of the moment or on what comes next, as its docstring says; ``heal`` ends all
of them. ``free_ports_in_a_row`` finds ports for a proxy per node of a broker that advertises consecutive ones.

The proxy lives on a thread with an event loop of its own; its methods may be called from any other.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK = 1 << 16
# Closing with this option set resets the connection: the peer sees an error, not an end.
_RESET = struct.pack("ii", 1, 0)


class _Passage:
    """One connection through the proxy: two streams, each copied by a task."""

    def __init__(self, client: asyncio.StreamWriter, broker: asyncio.StreamWriter) -> None:
        self.client = client
        self.broker = broker
        self.is_torn = False

    def reset(self) -> None:
        for writer in (self.client, self.broker):
            found = writer.get_extra_info("socket")
            if found is not None:
                with suppress(OSError):
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()


class Proxy:
    """Listens on ``port`` (0 picks one) and passes everything on to ``target`` on this machine."""

    def __init__(self, target: int, port: int = 0) -> None:
        self.target = target
        self.connections_made = 0
        self._delay_s = 0.0
        self._refuses = False
        self._passages: set[_Passage] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._may_pass = asyncio.Event()
        self._may_pass.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        try:
            self._server = self._run(lambda: asyncio.start_server(self._serve, "127.0.0.1", port))
        except BaseException:
            self._end_loop()
            raise
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    # faults

    def cut(self) -> None:
        """Reset all connections, in the middle of whatever they carry."""
        self._call(lambda: [each.reset() for each in list(self._passages)])

    def tear(self) -> None:
        """Let half of the next piece of each connection pass, in either direction, and reset it then."""
        self._call(lambda: [setattr(each, "is_torn", True) for each in self._passages])

    def delay(self, seconds: float) -> None:
        """Pass each piece on that much later; 0 ends it."""
        self._call(lambda: setattr(self, "_delay_s", seconds))

    def stall(self) -> None:
        """Pass nothing on, and keep all connections, until ``heal``."""
        self._call(self._may_pass.clear)

    def half_close(self, *, towards_client: bool) -> None:
        """End one direction of all connections; the other goes on."""

        def end() -> None:
            for each in list(self._passages):
                with suppress(OSError, RuntimeError):
                    (each.client if towards_client else each.broker).write_eof()

        self._call(end)

    def refuse(self) -> None:
        """Accept connections and close them at once, until ``heal``; those that are there go on."""
        self._call(lambda: setattr(self, "_refuses", True))

    def heal(self) -> None:
        """End delays, stalls and refusals; connections that were cut stay cut."""

        def end() -> None:
            self._delay_s = 0.0
            self._refuses = False
            self._may_pass.set()

        self._call(end)

    # life

    def close(self) -> None:
        if self._thread.is_alive():
            self._run(self._shut)
            self._end_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _shut(self) -> None:
        self._server.close()
        for each in list(self._passages):
            each.reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, make):
        return asyncio.run_coroutine_threadsafe(_awaited(make), self._loop).result(10)

    def _call(self, function: Callable[[], object]) -> None:
        async def act() -> None:
            function()

        self._run(act)

    # connections

    async def _serve(self, from_client: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._connect(from_client, client)
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            client.transport.abort()

    async def _connect(self, from_client: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self._refuses:
            return
        try:
            from_broker, broker = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            return
        self.connections_made += 1
        passage = _Passage(client, broker)
        self._passages.add(passage)
        try:
            await asyncio.gather(self._copy(from_client, broker, passage), self._copy(from_broker, client, passage))
        finally:
            self._passages.discard(passage)
            broker.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passage: _Passage) -> None:
        with suppress(OSError, RuntimeError):
            while piece := await reader.read(_CHUNK):
                await self._may_pass.wait()
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                if passage.is_torn:
                    writer.write(piece[: len(piece) // 2])
                    await writer.drain()
                    passage.reset()
                    return
                writer.write(piece)
                await writer.drain()
            writer.write_eof()


async def _awaited(make):
    return await make()


def free_ports_in_a_row(count: int) -> int:
    """The first of so many free consecutive ports, outside the range that outgoing connections are served from."""
    choose = random.SystemRandom()
    for _ in range(1000):
        first = choose.randrange(12_000, 30_000)
        if all(_is_free(first + number) for number in range(count)):
            return first
    raise OSError(f"no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
