"""The broker's metrics and health over HTTP, on the event loop that serves Kafka's protocol.

``seamark.metrics.listen`` (HOST:PORT) turns it on; without it nothing is counted per request and no port is open.
Paths are ``/metrics``, ``/health`` and ``/health/ready`` (503 until ready), ``/health/live``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from seamark.broker.health import live_page, ready_page
from seamark.broker.listener import Address, parse_address
from seamark.broker.metrics_collection import NodeMetrics, families
from seamark.broker.metrics_http import HttpClient, Page
from seamark.errors import UsageError
from seamark.prometheus_text import CONTENT_TYPE
from seamark.readable_log import readable_logger

if TYPE_CHECKING:
    from seamark.broker.loop_timers import Timer
    from seamark.broker.server import BrokerServer

_log = readable_logger("seamark.broker")

SETTING = "seamark.metrics.listen"
_SAMPLE_SECONDS = 5.0


class MetricsEndpoint:
    """Owned by the event loop's thread; ``address`` is the bound one while it serves."""

    def __init__(self, server: BrokerServer) -> None:
        self._server = server
        self.address: Address | None = None
        wanted = server.settings.given.get(SETTING)
        self._wanted = parse_address(SETTING, str(wanted)) if wanted else None
        self._nodes: list[NodeMetrics] = []
        self._clients: set[HttpClient] = set()
        self._listening: asyncio.Server | None = None
        self._timer: Timer | None = None

    async def start(self) -> None:
        """Count from now on, and serve; UsageError when the address cannot be bound."""
        if self._wanted is None:
            return
        self._nodes = [NodeMetrics(node) for node in self._server.nodes]
        for each in self._nodes:
            each.node.on_answer = each.costs.answered
        loop = self._server.loop
        pages = {
            "/metrics": self._metrics_page,
            "/health": lambda: ready_page(self._server),
            "/health/ready": lambda: ready_page(self._server),
            "/health/live": live_page,
        }
        try:
            self._listening = await loop.create_server(
                lambda: HttpClient(pages, self._clients, loop), self._wanted.host or None, self._wanted.port
            )
        except OSError as error:
            raise UsageError(f"cannot serve metrics on {self._wanted}: {error.strerror or error}") from error
        self.address = self._wanted._replace(port=self._listening.sockets[0].getsockname()[1])
        _log.info("metrics at http://%s/metrics", self.address)
        self._sample()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._listening is not None:
            self._listening.close()
            self._listening = None
            self.address = None
        for client in list(self._clients):
            client.abort()
        for each in self._nodes:
            each.node.on_answer = None
        self._nodes = []

    def text(self) -> str:
        return "".join(family.text() for family in families(self._server, self._nodes))

    def _metrics_page(self) -> Page:
        try:
            return Page(200, CONTENT_TYPE, self.text())
        except Exception:  # noqa: BLE001  # a scraper must get an answer, and the bug a place in the log
            _log.exception("the metrics could not be read")
            return Page(500, "text/plain", "the metrics could not be read\n")

    def _sample(self) -> None:
        now = self._server.clock.monotonic()
        for each in self._nodes:
            each.sample(now)
        self._timer = self._server.timers.call_after(_SAMPLE_SECONDS, self._sample)
