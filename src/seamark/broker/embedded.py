"""``seamark.Broker``: a broker for tests and notebooks, on a thread of its own.

It serves from construction on and until ``close``. Its methods may be called from any thread, with the exception of the
broker's own; each is carried out on the event loop and returns when it is done. A forked child may connect to it, but
not command it: the thread is the parent's.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from seamark.broker.api.topic_rules import create_checked
from seamark.broker.event_loop import new_event_loop
from seamark.broker.faults.requests import Faults
from seamark.broker.node import Node
from seamark.broker.security.security import Security
from seamark.broker.server import BrokerServer
from seamark.errors import ClosedError, ConfigError, MadeBeforeFork, UsageError

T = TypeVar("T")

# How long a call waits for the event loop; nothing that it does takes a fraction of that.
_CALL_SECONDS = 60.0


class BrokerNode:
    """One of ``broker.nodes``."""

    def __init__(self, broker: Broker, node: Node) -> None:
        self._broker = broker
        self._node = node

    @property
    def id(self) -> int:
        return self._node.id

    @property
    def bootstrap(self) -> str:
        return self._node.bootstrap

    @property
    def is_running(self) -> bool:
        return self._node.is_running

    def stop(self) -> None:
        """Close its listener and connections; its partitions and groups move to other nodes."""
        self._broker._call(self._node.stop)

    def start(self) -> None:
        """Listen again on the same address."""
        self._broker._run(self._node.start())

    def slow(self, seconds: float) -> None:
        """Handle every request that much later; 0 ends it."""
        if not seconds >= 0:
            raise ConfigError("seconds", seconds, "it must not be negative")

        def set_delay() -> None:
            self._node.delay_seconds = seconds
            self._node.faults.refresh()

        self._broker._call(set_delay)

    def __repr__(self) -> str:
        return f"<node {self.id} at {self.bootstrap}{'' if self.is_running else ', stopped'}>"


class Broker:
    """A Kafka broker in this process.

    ``data`` is a directory, None keeps everything in memory. ``settings`` are Kafka's broker keys. ``durability`` is
    ``os`` (an append counts when the operating system has it, as in Kafka) or ``commit`` (when it is synced).
    ``max_versions`` names a Kafka release whose API versions are offered. Listening on an address that other machines
    reach needs ``security`` or ``insecure=True``.
    """

    def __init__(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        nodes: int = 1,
        listen: str = "127.0.0.1:0",
        settings: Mapping[str, object] | None = None,
        durability: str = "os",
        security: Security | None = None,
        max_versions: str | None = None,
        insecure: bool = False,
    ) -> None:
        self._is_closed = False
        self._process = os.getpid()
        self._loop = new_event_loop()
        self._thread: threading.Thread | None = threading.Thread(target=self._serve, name="seamark-broker", daemon=True)
        self._thread.start()

        async def make() -> BrokerServer:
            server = BrokerServer(
                self._loop,
                self._call,
                data=None if data is None else os.fspath(data),
                nodes=nodes,
                listen=listen,
                settings=settings,
                durability=durability,
                security=security,
                max_versions=max_versions,
                insecure=insecure,
            )
            await server.start()
            return server

        try:
            self._server = self._run(make())
        except BaseException:
            self._end_thread()
            raise
        self.nodes = [BrokerNode(self, node) for node in self._server.nodes]
        # A script that forgets to close ends cleanly all the same.
        atexit.register(self.close)

    @property
    def bootstrap(self) -> str:
        """What clients are given as ``bootstrap.servers``: the addresses of all nodes."""
        return self._server.bootstrap

    @property
    def metrics_url(self) -> str | None:
        """Where metrics are served; None without ``seamark.metrics.listen``."""
        address = self._server.metrics.address
        return None if address is None else f"http://{address}/metrics"

    @property
    def faults(self) -> Faults:
        return self._server.faults

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        *,
        replication_factor: int = -1,
    ) -> None:
        """Make a topic; UsageError says why it cannot be."""
        texts = {key: str(value) for key, value in (config or {}).items()}
        self._call(lambda: create_checked(self._server.cluster, name, partitions, replication_factor, texts))

    def advance(self, seconds: float) -> None:
        """Move the broker's clock; sessions, retention and expiration that are due by then happen before it returns."""
        self._run(self._server.advance(seconds))

    def restore(self) -> None:
        """Take back what a test did to it: faults, stopped nodes, a moved clock, changed settings.

        Topics, records and groups stay. What time made happen stays too: ended sessions, expired offsets.
        """
        self.faults.clear()
        self._run(self._server.restore())

    def close(self) -> None:
        """Stop serving, sync and close everything; a second call, or one in a forked child, does nothing."""
        if self._is_closed or self._process != os.getpid():
            return
        self._is_closed = True
        atexit.unregister(self.close)
        try:
            self._await(self._server.stop())
        finally:
            self._end_thread()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    # -- across to the event loop's thread

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        # On this thread: the one that closes may have a running loop of its own.
        self._loop.run_until_complete(self._loop.shutdown_default_executor())

    def _call(self, function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return self._run(call())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._process != os.getpid():
            work.close()
            raise MadeBeforeFork("Broker")
        if self._is_closed:
            work.close()
            raise ClosedError("the broker was closed")
        return self._await(work)

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError("this must not be called from the broker's own thread")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_SECONDS)

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(_CALL_SECONDS)
            self._loop.close()
