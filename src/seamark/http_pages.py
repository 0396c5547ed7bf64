"""A few pages of text over HTTP: metrics and health, for programs that scrape and probe.

Not a web server: one GET or HEAD per connection, answered with what one function makes of a path. Bounded in every
direction: the size of a request, how long a client may take in all, how many clients there are (the one that has been
there longest goes for a new one, so silent ones keep nobody out), and how much of the time goes into making a page: who
asks for it too often gets the last one again.

``PageServer`` is for an event loop that is there already, ``HttpPages`` has a thread of its own.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from types import TracebackType
from typing import NamedTuple, Self

from seamark.address_failures import network_of
from seamark.addresses import Address, is_loopback, parse_address, why_not_bound
from seamark.errors import UsageError
from seamark.http_hosts import AllowedHosts
from seamark.readable_log import readable_logger

_log = readable_logger("seamark.http")

PLAIN = "text/plain; charset=utf-8"
MAX_HEAD_BYTES = 8192
MAX_CLIENTS = 64
MAX_CLIENTS_OF_AN_ADDRESS = 32
# Connections that may wait to be accepted: a crowd that fills it would make others wait for a second.
BACKLOG = 1024
# From the connection to the last byte of the answer.
CLIENT_SECONDS = 10.0
# Of the processor's time, what may go into one page in the long run, and how many seconds of it at once.
PAGES_SHARE = 0.2
PAGES_AT_ONCE_S = 0.2
# What a page that failed counts for: its traceback must not fill the log.
_FAILURE_S = 1.0
_MOST_KEPT = 16


class Page(NamedTuple):
    body: str
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = PLAIN


class PageServer:
    """Owned by one event loop; ``protocol`` is the factory for ``loop.create_server``.

    On a loopback address the ``Host`` of a request must be allowed; on others only if hosts are given: who may reach
    such an address may read the pages anyway, and asks for them by names that are not known here.
    """

    def __init__(self, page: Callable[[str], Page], host: str, allowed_hosts: Iterable[str] = ()) -> None:
        self._page = page
        self._hosts = AllowedHosts(host, allowed_hosts)
        self._checks_hosts = is_loopback(host) or bool(self._hosts.given)
        # The one that came first is the first.
        self._clients: dict[HttpClient, str] = {}
        self._kept: dict[str, _Kept] = {}

    def protocol(self) -> HttpClient:
        return HttpClient(self)

    def close(self) -> None:
        for client in list(self._clients):
            client.abort()

    def admit(self, client: HttpClient, address: str) -> None:
        """Count a client in; the one of its address, or of all, that came first may have to go."""
        network = network_of(address)
        alike = [other for other, theirs in self._clients.items() if theirs == network]
        self._clients[client] = network
        if len(alike) >= MAX_CLIENTS_OF_AN_ADDRESS:
            alike[0].abort()
        elif len(self._clients) > MAX_CLIENTS:
            next(iter(self._clients)).abort()

    def forget(self, client: HttpClient) -> None:
        self._clients.pop(client, None)

    def answer(self, head: bytes) -> tuple[Page, bool]:
        """The page for a request's head, and whether its body is wanted."""
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return Page("this is not an HTTP request\n", HTTPStatus.BAD_REQUEST), True
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            return Page("only GET and HEAD are served\n", HTTPStatus.METHOD_NOT_ALLOWED), True
        hosts = [line.partition(":")[2].strip() for line in lines[1:] if line[:5].lower() == "host:"]
        if len(hosts) > 1 or not target.startswith("/"):
            return Page("this request cannot be understood\n", HTTPStatus.BAD_REQUEST), True
        if self._checks_hosts and hosts and not self._hosts.allow(hosts[0]):
            refusal = "this host name is not allowed; ask by address, or allow the name where the pages are set up\n"
            return Page(refusal, HTTPStatus.MISDIRECTED_REQUEST), True
        return self._made(target.partition("?")[0]), method == "GET"

    def _made(self, path: str) -> Page:
        kept = self._kept.get(path)
        if kept is not None and kept.spent_s(time.monotonic()) > PAGES_AT_ONCE_S:
            return kept.page
        # The thread's own time: what others do meanwhile is not this page's.
        began = time.thread_time()
        failure_s = 0.0
        try:
            made = self._page(path)
        except Exception:  # noqa: BLE001 - a scraper must get an answer, and the bug a place in the log
            _log.exception("the page %s could not be made", path[:100])
            made = Page("the page could not be made; the log has the reason\n", HTTPStatus.INTERNAL_SERVER_ERROR)
            failure_s = _FAILURE_S
        if kept is None and made.status != HTTPStatus.NOT_FOUND and len(self._kept) < _MOST_KEPT:
            kept = self._kept[path] = _Kept()
        if kept is not None:
            kept.page = made
            kept.spend(time.thread_time() - began + failure_s, time.monotonic())
        return made


class _Kept:
    """The last page of a path, and the time that went into its pages lately."""

    __slots__ = ("_spent_at", "_spent_s", "page")

    def __init__(self) -> None:
        self.page = Page("")
        self._spent_s = 0.0
        self._spent_at = 0.0

    def spent_s(self, now: float) -> float:
        return max(0.0, self._spent_s - PAGES_SHARE * (now - self._spent_at))

    def spend(self, seconds: float, now: float) -> None:
        self._spent_s = self.spent_s(now) + seconds
        self._spent_at = now


class HttpClient(asyncio.Protocol):
    """One client."""

    def __init__(self, server: PageServer) -> None:
        self._server = server
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._deadline = asyncio.get_running_loop().call_later(CLIENT_SECONDS, self.abort)
        self._server.admit(self, str((transport.get_extra_info("peername") or ("unknown",))[0]))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._server.forget(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        self._server.forget(self)
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        # The end of the head may lie across the pieces it came in.
        looked_at = max(0, len(self._head) - 3)
        self._head += data[: MAX_HEAD_BYTES + 1]
        end = self._head.find(b"\r\n\r\n", looked_at)
        if end >= 0:
            self._send(*self._server.answer(bytes(self._head[:end])))
        elif len(self._head) > MAX_HEAD_BYTES:
            self._send(Page("the request is too large\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), True)

    def _send(self, page: Page, with_body: bool) -> None:
        body = page.body.encode()
        head = (
            f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\nContent-Type: {page.content_type}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            "Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n"
        )
        assert self._transport is not None
        self._transport.write(head.encode() + (body if with_body else b""))
        self._transport.close()


class HttpPages:
    """Serves ``page(path)`` at ``listen``; port 0 picks a free one, which ``address`` tells."""

    def __init__(
        self,
        page: Callable[[str], Page],
        listen: str = "127.0.0.1:0",
        *,
        name: str = "seamark-http",
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        host, port = parse_address("listen", listen)
        self._server = PageServer(page, host, allowed_hosts)
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise UsageError(why_not_bound(Address(host, port), error)) from None
        self._loop = asyncio.new_event_loop()
        self.address = str(Address(*self._socket.getsockname()[:2]))
        self._is_serving = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        self._is_serving.wait()

    def _serve(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        listening = loop.run_until_complete(
            loop.create_server(self._server.protocol, sock=self._socket, backlog=BACKLOG)
        )
        self._is_serving.set()
        loop.run_forever()
        listening.close()
        self._server.close()
        # Transports that were aborted let go of their sockets in the next turn.
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    def close(self) -> None:
        """End it; calling it again does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
