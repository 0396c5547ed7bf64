"""Serves the application on a thread of its own: an address that is known before the first request, and a clean end.

What clients may cost is bounded by ``http_limits``; what uvicorn would log of each bad request is not logged.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from functools import partial
from types import TracebackType
from typing import Self

import uvicorn

from seamark.addresses import Address, parse_address, why_not_bound
from seamark.dashboard.app import Dashboard
from seamark.dashboard.http_limits import (
    MAX_HEAD_BYTES,
    MOST_CONNECTIONS,
    MOST_OF_AN_ADDRESS,
    BoundedHttp,
    HttpConnections,
    LimitedRequests,
)
from seamark.errors import ConfigError, UsageError

_END_S = 3
# From the connection to the end of the TLS handshake.
_HANDSHAKE_S = 5.0


class _Uvicorn(uvicorn.Server):
    """As uvicorn's, with a limit for TLS handshakes; connections are counted from their end on."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config = self.config
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state={}, _loop=loop
            )
            return made

        handshake = None if config.ssl is None else _HANDSHAKE_S
        self.servers = [
            await loop.create_server(
                protocol, sock=listener, ssl=config.ssl, backlog=config.backlog, ssl_handshake_timeout=handshake
            )
            for listener in sockets or ()
        ]
        self.started = True


class Server:
    """``dashboard`` at ``listen``; port 0 picks a free one, which ``address`` tells.

    Behind a proxy all clients come from one address, so that addresses have no limit of their own.
    """

    def __init__(
        self, dashboard: Dashboard, listen: str, *, certificate: str = "", key: str = "", is_behind_proxy: bool = False
    ) -> None:
        host, port = parse_address("listen", listen)
        self._dashboard = dashboard
        connections = HttpConnections(MOST_CONNECTIONS if is_behind_proxy else MOST_OF_AN_ADDRESS)
        config = uvicorn.Config(
            LimitedRequests(dashboard.app, connections), http=partial(BoundedHttp, connections),  # type: ignore[arg-type]
            h11_max_incomplete_event_size=MAX_HEAD_BYTES, log_level="error", access_log=False, server_header=False,
            lifespan="off", ws="none", proxy_headers=False, timeout_graceful_shutdown=_END_S,
            ssl_certfile=certificate or None, ssl_keyfile=key or None,
        )  # fmt: skip
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError("tls-cert", certificate, f"cannot be used with this key: {error}") from None
        try:
            self._socket = socket.create_server(
                (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128
            )
        except OSError as error:
            raise UsageError(why_not_bound(Address(host, port), error)) from None
        self._host = host
        self._server = _Uvicorn(config)
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
