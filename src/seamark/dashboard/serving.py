"""Serves the application on a thread of its own: an address that is known before the first request, and a clean end."""

from __future__ import annotations

import socket
import ssl
import threading
from types import TracebackType
from typing import Self

import uvicorn

from seamark.dashboard.app import Dashboard
from seamark.errors import ConfigError
from seamark.http_pages import address_of

# Requests at a time; more are answered with 503 at once.
_MOST_REQUESTS = 300
_END_S = 3


class Server:
    """``dashboard`` at ``listen``; port 0 picks a free one, which ``address`` tells."""

    def __init__(self, dashboard: Dashboard, listen: str, *, certificate: str = "", key: str = "") -> None:
        host, port = address_of(listen)
        self._dashboard = dashboard
        config = uvicorn.Config(
            dashboard.app, log_level="warning", access_log=False, server_header=False, lifespan="off", ws="none",
            proxy_headers=False, limit_concurrency=_MOST_REQUESTS, timeout_graceful_shutdown=_END_S,
            ssl_certfile=certificate or None, ssl_keyfile=key or None,
        )  # fmt: skip
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError("tls-cert", certificate, f"cannot be used with its key: {error}") from None
        try:
            self._socket = socket.create_server(
                (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128
            )
        except OSError as error:
            raise ConfigError("listen", listen, f"cannot be listened at: {error.strerror}") from None
        self._host = host
        self._server = uvicorn.Server(config)
        # Signals stay with whoever waits: uvicorn takes them on the main thread only.
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="seamark-dashboard", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        port = self._socket.getsockname()[1]
        return f"[{self._host}]:{port}" if ":" in self._host else f"{self._host}:{port}"

    def close(self) -> None:
        """End it; calling it again does nothing."""
        self._dashboard.streams.end()
        self._server.should_exit = True
        self._thread.join(_END_S + 5)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
