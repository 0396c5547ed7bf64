"""Keeps the metadata fresh: one request at a time, again after a failure, and before it is too old.

The rule when a refresh is due is the cache's; this part sends the request, wakes up in time, and lets callers wait for
the next answer. A failed refresh is tried again with backoff for as long as somebody waits or the client is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Protocol

from seamark.client.cluster_view import ClusterView, MetadataCache
from seamark.client.errors import (
    AuthenticationFailed,
    NetworkError,
    NoBrokerAvailable,
    TlsFailed,
    UnsupportedByBroker,
)
from seamark.client.net.client_log import ClientLog
from seamark.client.net.exchanges import AnyBroker
from seamark.client.net.surroundings import PROCESS, Surroundings
from seamark.client.timing import Deadline
from seamark.errors import ClosedError
from seamark.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

# Version 4 is the first that can say whether topics may be created by asking; brokers of 2.4 have 8 and above.
_LEAST_VERSION = 4
# Sleeping in slices keeps one far wake-up from being missed when the clock of a suspended machine jumps.
_LONGEST_SLEEP_S = 60.0


class Network(AnyBroker, Protocol):
    @property
    def log(self) -> ClientLog: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def is_closed(self) -> bool: ...

    def drop_bootstrap(self) -> None: ...


class MetadataRefresh:
    """The task of one client, started by the first wait or nudge."""

    def __init__(self, network: Network, surroundings: Surroundings = PROCESS) -> None:
        self.listeners: list[Callable[[ClusterView], None]] = []
        self._network = network
        self._surroundings = surroundings
        self._now_ms = surroundings.now_ms
        self._task: asyncio.Task[None] | None = None
        self._wake: asyncio.Event | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self.allow_auto_topic_creation = False

    def nudge(self) -> None:
        """What is known has become stale, or something else is wanted: look at when to refresh."""
        if self._network.is_closed:
            return
        if self._task is None or self._task.done():
            self._wake = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(self._ended)
        assert self._wake is not None
        self._wake.set()

    async def wait(self, deadline: Deadline) -> None:
        """Return after the next answer; NoBrokerAvailable with the reasons when there is none by the deadline."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self.nudge()
        try:
            await asyncio.wait({waiter}, timeout=deadline.remaining)
            if not waiter.done():
                raise NoBrokerAvailable(self._network.causes(), deadline.seconds)
            waiter.result()
        finally:
            waiter.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._tell(ClosedError("the client was closed while it was waiting for metadata"))

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The task ends only when it is cancelled, or by something that no retry heals (a name that cannot be sent)."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            text = f"metadata cannot be requested: {error}"
            self._network.log.say(logging.ERROR, "metadata_failed", text, reason=str(error))
            self._network.metadata.request_failed(self._now_ms())
            self._tell(error)

    async def _run(self) -> None:
        cache = self._network.metadata
        assert self._wake is not None
        while True:
            self._wake.clear()
            wait_s = max(0.0, (cache.refresh_due_ms() - self._now_ms()) / 1000)
            if wait_s > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), min(wait_s, _LONGEST_SLEEP_S))
                continue
            await self._once()

    async def _once(self) -> None:
        cache = self._network.metadata
        cache.request_sent()
        try:
            response = await self._ask(self._surroundings.deadline(self._network.config.request_timeout_ms / 1000))
        except (AuthenticationFailed, TlsFailed, UnsupportedByBroker) as error:
            cache.request_failed(self._now_ms())
            self._tell(error)
        except NetworkError as error:
            # Which address cannot be reached, and since when, is said by the network.
            text = f"metadata could not be refreshed, retrying: {error}"
            self._network.log.say(logging.INFO, "metadata_failed", text, reason=str(error))
            cache.request_failed(self._now_ms())
        else:
            if not response.brokers:
                # A broker that has just started knows no one, not even itself.
                cache.request_failed(self._now_ms())
                return
            changed = cache.updated(response, self._now_ms())
            self._network.drop_bootstrap()
            self._tell(None)
            if changed:
                for listener in self.listeners:
                    listener(cache.view)

    async def _ask(self, deadline: Deadline) -> MetadataResponse:
        topics = self._network.metadata.topics_to_request
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=self.allow_auto_topic_creation,
        )
        return await self._network.send_to_any(request, MetadataResponse, deadline=deadline, min_version=_LEAST_VERSION)

    def _tell(self, error: BaseException | None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
