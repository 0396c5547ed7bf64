"""Keeps a simulated client's picture of the cluster fresh, by the client's own rules about when that is due.

The counterpart of ``MetadataRefresh``: one request at a time to any node, again after a failure, and before it is too
old. Whoever asked for a refresh is told of the next answer even if it says nothing new.
"""

from __future__ import annotations

from collections.abc import Callable

from seamark.client.cluster_view import NEVER, ClusterView, MetadataCache
from seamark.client.errors import ClientError
from seamark.client.timing import ExponentialBackoff
from seamark.simulation.world.node_links import Exchange, Links
from seamark.simulation.world.process_clock import ProcessClock
from seamark.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


class MetadataUpkeep:
    def __init__(
        self,
        clock: ProcessClock,
        links: Links,
        backoff: ExponentialBackoff,
        max_age_ms: int,
        timeout_ms: int,
        arrived: Callable[[ClusterView], None],
    ) -> None:
        self._clock = clock
        self._links = links
        self._cache = MetadataCache(max_age_ms, backoff)
        self._timeout_ms = timeout_ms
        self._arrived = arrived
        self._is_awaited = False
        self._due_ms: int | None = None

    def want(self, topics: frozenset[str], *, also_all: bool) -> None:
        if self._cache.want_topics(topics, also_all=also_all):
            self.outdated()

    def refresh(self) -> None:
        """Somebody waits for the next answer."""
        self._is_awaited = True
        self.outdated()

    def outdated(self) -> None:
        self._cache.mark_stale()
        self._look()

    def _look(self) -> None:
        due_ms = self._cache.refresh_due_ms()
        if due_ms >= NEVER:
            return
        due_ms = max(due_ms, self._clock.now_ms)
        if self._due_ms is None or due_ms < self._due_ms:
            self._due_ms = due_ms
            self._clock.call_at(due_ms, self._ask, due_ms)

    def _ask(self, due_ms: int) -> None:
        if self._due_ms != due_ms:
            return
        self._due_ms = None
        if self._cache.refresh_due_ms() > self._clock.now_ms:
            self._look()
            return
        self._cache.request_sent()
        topics = self._cache.topics_to_request
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        exchange = Exchange(request, MetadataResponse, self._timeout_ms, self._answered, self._failed)
        self._links.send_to_any(exchange)

    def _answered(self, response: MetadataResponse) -> None:
        is_changed = self._cache.updated(response, self._clock.now_ms)
        was_awaited, self._is_awaited = self._is_awaited, False
        if is_changed or was_awaited:
            self._arrived(self._cache.view)
        self._look()

    def _failed(self, error: ClientError) -> None:  # noqa: ARG002
        self._cache.request_failed(self._clock.now_ms)
        self._look()
