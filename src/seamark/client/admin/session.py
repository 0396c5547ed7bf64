"""What the blocking and the awaitable admin client share: configuration, the network, and the way to the I/O thread."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Self, TypeVar

from seamark.client.config.config import AdminConfig
from seamark.client.net.client import NetworkClient
from seamark.client.net.io_thread import IoThread
from seamark.client.timing import Deadline

T = TypeVar("T")


class AdminSession:
    """One network client, used on the I/O thread only; callers may be on any thread."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        self.config = AdminConfig.from_options(config, keywords)
        self._options = dict(config or {}), keywords
        self._io = IoThread.get()
        self._network = NetworkClient(self.config)

    def another(self) -> Self:
        """A client with the same options and connections of its own.

        A broker answers the requests of one connection one after the other; those that have to wait for the disk of a
        broker or its replicas wait side by side only on several.
        """
        config, keywords = self._options
        return type(self)(config, **keywords)

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline.after(timeout, self.config.default_api_timeout_ms)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._io.run(work)

    async def _run_async(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._io.run_async(work)

    @property
    def request_counts(self) -> dict[str, int]:
        """How many requests of each kind this client has sent."""
        return dict(self._network.request_counts)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self.config.bootstrap_servers)}>"
