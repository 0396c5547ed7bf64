"""A few pages of text over HTTP on a thread of their own: metrics and health, for programs that scrape and probe.

Not a web server: it answers GET and HEAD with what one function makes of a path, and lets go of whoever is slow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self

from seamark.errors import ConfigError

PLAIN = "text/plain; charset=utf-8"
# A client that does not finish its request is let go.
_CLIENT_S = 10.0


class Page(NamedTuple):
    body: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = PLAIN


class HttpPages:
    """Serves ``page(path)`` at ``listen``; port 0 picks a free one, which ``address`` tells."""

    def __init__(self, page: Callable[[str], Page], listen: str = "127.0.0.1:0", *, name: str = "seamark-http") -> None:
        host, port = address_of(listen)
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(page))
        except OSError as error:
            raise ConfigError("listen", listen, f"cannot be listened at: {error.strerror}") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def close(self) -> None:
        """End it; calling it again does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def address_of(listen: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``; ConfigError if it is not that."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError("listen", listen, "is not HOST:PORT")
    return host.strip("[]"), int(port)


def _handler(page: Callable[[str], Page]) -> type[BaseHTTPRequestHandler]:
    class Answer(BaseHTTPRequestHandler):
        timeout = _CLIENT_S

        def do_GET(self) -> None:
            body, status, content_type = page(self.path.partition("?")[0])
            encoded = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(encoded)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """A probe every few seconds is not worth a line each."""

    return Answer
