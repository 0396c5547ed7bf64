"""The little of HTTP that a scraper and a health check need: GET and HEAD of a few paths, one request per connection.

Bounded in every direction: the size of a request, the time that a client may take, how many may be there at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

MAX_HEAD_BYTES = 8192
MAX_CLIENTS = 64
CLIENT_SECONDS = 10.0
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Page(NamedTuple):
    status: int
    content_type: str
    body: str


Pages = Mapping[str, Callable[[], Page]]


class HttpClient(asyncio.Protocol):
    """One client; ``clients`` holds all that are connected."""

    def __init__(self, pages: Pages, clients: set[HttpClient], loop: asyncio.AbstractEventLoop) -> None:
        self._pages = pages
        self._clients = clients
        self._loop = loop
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._clients.add(self)
        self._deadline = self._loop.call_later(CLIENT_SECONDS, self.abort)
        if len(self._clients) > 2 * MAX_CLIENTS:
            self.abort()
        # Refused when its request is there: an answer before that would be lost with the reset of the connection.
        self._is_refused = len(self._clients) > MAX_CLIENTS

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._clients.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._head += data
        if b"\r\n\r\n" not in self._head:
            if len(self._head) > MAX_HEAD_BYTES:
                self._answer(Page(431, "text/plain", "the request is too large\n"), with_body=True)
            return
        if self._is_refused:
            self._answer(Page(503, "text/plain", "too many clients\n"), with_body=True)
            return
        words = bytes(self._head).split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._answer(Page(400, "text/plain", "this is not an HTTP request\n"), with_body=True)
        elif words[0] not in ("GET", "HEAD"):
            self._answer(Page(405, "text/plain", "only GET and HEAD are served\n"), with_body=True)
        else:
            self._answer(self._page(words[1].partition("?")[0]), with_body=words[0] == "GET")

    def _page(self, path: str) -> Page:
        make = self._pages.get(path)
        if make is None:
            return Page(404, "text/plain", f"there are {', '.join(self._pages)}\n")
        return make()

    def _answer(self, page: Page, *, with_body: bool) -> None:
        body = page.body.encode()
        head = (
            f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.content_type}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        assert self._transport is not None
        self._transport.write(head.encode() + (body if with_body else b""))
        self._transport.close()
