"""The lag of a session's queries over HTTP, for Prometheus to scrape: ``GET /metrics`` on loopback."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from seamark.errors import ConfigError
from seamark.http_pages import HttpPages, Page
from seamark.prometheus_text import CONTENT_TYPE


class MetricsPage(HttpPages):
    """Ends with the process; ``port`` is the one it got."""

    def __init__(self, port: int, text: Callable[[], str]) -> None:
        def page(path: str) -> Page:
            if path == "/metrics":
                return Page(text(), content_type=CONTENT_TYPE)
            return Page("the metrics are at /metrics\n", HTTPStatus.NOT_FOUND)

        try:
            super().__init__(page, f"127.0.0.1:{port}", name="seamark-metrics")
        except ConfigError as error:
            raise ConfigError("metrics_port", port, error.reason) from None

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])
