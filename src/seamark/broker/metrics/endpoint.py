"""The broker's metrics and health over HTTP, on the event loop that serves Kafka's protocol.

``seamark.metrics.listen`` (HOST:PORT) turns it on; without it nothing is counted per request and no port is open.
Paths are ``/metrics``, ``/health`` and ``/health/ready`` (503 until ready), ``/health/live``. On a loopback address a
request must name an address, localhost or one of ``seamark.metrics.allowed.hosts`` as its host.

Live means that the event loop answers at all. Ready means that a node serves and that no offsets partition of a running
node is still being loaded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

from seamark.addresses import Address, parse_address
from seamark.broker.clock import BrokerClock, Timer, Timers
from seamark.broker.config.settings import BrokerSettings
from seamark.broker.metrics.collect import MeasuredBroker, NodeMetrics, families
from seamark.errors import UsageError
from seamark.http_pages import BACKLOG, Page, PageServer
from seamark.prometheus_text import CONTENT_TYPE
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.broker")

SETTING = "seamark.metrics.listen"
ALLOWED_HOSTS = "seamark.metrics.allowed.hosts"
_SAMPLE_SECONDS = 5.0
_JSON = "application/json"


def why_not_ready(broker: MeasuredBroker) -> str | None:
    running = [node for node in broker.nodes if node.is_running]
    if not running:
        return "no node is running"
    loading = [str(node.id) for node in running if node.groups.is_loading]
    if loading:
        return f"groups are being loaded on node {', '.join(loading)}"
    return None


def live_page() -> Page:
    return Page(json.dumps({"status": "live"}) + "\n", content_type=_JSON)


def ready_page(broker: MeasuredBroker) -> Page:
    reason = why_not_ready(broker)
    answer: dict[str, object] = {"status": "ready" if reason is None else "not ready"}
    if reason is not None:
        answer["reason"] = reason
    answer["nodes"] = {str(node.id): "running" if node.is_running else "stopped" for node in broker.nodes}
    status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(json.dumps(answer) + "\n", status, _JSON)


class ServedBroker(MeasuredBroker, Protocol):
    """A broker whose metrics are served on its event loop."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def clock(self) -> BrokerClock: ...

    @property
    def timers(self) -> Timers: ...


class MetricsEndpoint:
    """Owned by the event loop's thread; ``address`` is the bound one while it serves."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker = broker
        self.address: Address | None = None
        wanted = broker.settings.given.get(SETTING)
        self._wanted = parse_address(SETTING, str(wanted)) if wanted else None
        self._nodes: list[NodeMetrics] = []
        self._allowed_hosts = [
            host.strip() for host in str(broker.settings.given.get(ALLOWED_HOSTS, "")).split(",") if host.strip()
        ]
        self._pages: dict[str, Callable[[], Page]] = {
            "/metrics": lambda: Page(self.text(), content_type=CONTENT_TYPE),
            "/health": lambda: ready_page(broker),
            "/health/ready": lambda: ready_page(broker),
            "/health/live": live_page,
        }
        self._page_server: PageServer | None = None
        self._listening: asyncio.Server | None = None
        self._timer: Timer | None = None

    async def start(self) -> None:
        """Count from now on, and serve; UsageError when the address cannot be bound."""
        if self._wanted is None:
            return
        self._nodes = [NodeMetrics(node) for node in self._broker.nodes]
        for metrics in self._nodes:
            metrics.node.on_answer = metrics.costs.answered
        self._page_server = PageServer(self._page, self._wanted.host, self._allowed_hosts)
        try:
            self._listening = await self._broker.loop.create_server(
                self._page_server.protocol, self._wanted.host or None, self._wanted.port, backlog=BACKLOG
            )
        except OSError as error:
            raise UsageError(f"cannot serve metrics on {self._wanted}: {error.strerror or error}") from error
        self.address = self._wanted._replace(port=self._listening.sockets[0].getsockname()[1])
        _log.info("metrics are served at http://%s/metrics", self.address)
        self._sample()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._listening is not None:
            self._listening.close()
            self._listening = None
            self.address = None
        if self._page_server is not None:
            self._page_server.close()
        for metrics in self._nodes:
            metrics.node.on_answer = None
        self._nodes = []

    def text(self) -> str:
        return "".join(family.text() for family in families(self._broker, self._nodes))

    def _page(self, path: str) -> Page:
        make = self._pages.get(path)
        if make is None:
            return Page(f"not found; the pages are {', '.join(self._pages)}\n", HTTPStatus.NOT_FOUND)
        return make()

    def _sample(self) -> None:
        now = self._broker.clock.monotonic()
        for metrics in self._nodes:
            metrics.sample(now)
        self._timer = self._broker.timers.call_after(_SAMPLE_SECONDS, self._sample)
