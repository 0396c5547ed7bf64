"""A health endpoint for pods: is the consumer alive, is it ready, and its metrics, over HTTP on a thread of its own.

    /healthz   200 while it works, else 503 with a sentence for each reason: restart it. "degraded" instead of "ok",
               with a sentence each, for what a restart does not mend
    /readyz    200 once partitions are assigned
    /metrics   Prometheus text

``complaints``, ``degradations`` and ``unready`` are the rules, and pure. A consumer that is asked to stop is healthy
while it drains.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from types import TracebackType
from typing import Protocol, Self

from seamark.addresses import parse_address
from seamark.errors import SeamarkError
from seamark.http_pages import HttpPages, Page
from seamark.parallel.observe.metrics import metrics_text
from seamark.parallel.observe.status import State, Status
from seamark.prometheus_text import CONTENT_TYPE


class HasStatus(Protocol):
    """A parallel consumer, blocking or awaitable, as far as watching it from another thread needs one."""

    def blocking_status(self) -> Status: ...


def complaints(status: Status, *, max_stall: float, max_commit_failing: float) -> list[str]:
    """Why a restart is called for; empty while all is well."""
    reasons = []
    if status.state is State.FAILED:
        reasons.append(f"the consumer stopped: {status.reason or status.last_error}")
    if status.state is State.STOPPED:
        reasons.append("the consumer was stopped")
    reasons += [str(held) for held in status.holding if held.stall.age > max_stall]
    if status.commits.failing_for > max_commit_failing:
        error = status.commits.last_error
        reasons.append(f"no commit was accepted for {status.commits.failing_for:.0f} s; last error: {error}")
    return reasons


def degradations(status: Status) -> list[str]:
    """What somebody has to look at while the rest goes on.

    No reason for a restart: the batch would be met again, and whoever wrote it would stop all other partitions.
    """
    return [str(partition) for partition in status.set_aside]


def unready(status: Status) -> str | None:
    """Why the consumer does not work yet, or no longer."""
    if status.state is not State.RUNNING:
        return f"the consumer is {status.state.value}"
    if not status.partitions:
        return "no partitions are assigned"
    return None


class HealthServer:
    """Serves the health of ``consumer`` at ``listen``; port 0 picks a free one, which ``address`` tells.

    ``max_stall`` and ``max_commit_failing`` are seconds after which a record that holds its partition back, or commits
    that are refused, make the consumer unhealthy. On a loopback address requests must name an address, ``localhost`` or
    one of ``allowed_hosts`` as their host; elsewhere only if ``allowed_hosts`` are given.
    """

    def __init__(
        self,
        consumer: HasStatus,
        listen: str = "127.0.0.1:0",
        *,
        max_stall: float = 900.0,
        max_commit_failing: float = 120.0,
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        self._consumer = consumer
        self._max_stall = max_stall
        self._max_commit_failing = max_commit_failing
        parse_address("listen", listen)
        self._listen = listen
        self._allowed_hosts = tuple(allowed_hosts)
        self._pages: HttpPages | None = None

    def start(self) -> Self:
        self._pages = HttpPages(self._page, self._listen, name="seamark-health", allowed_hosts=self._allowed_hosts)
        return self

    @property
    def address(self) -> str:
        """Host and port, once started."""
        if self._pages is None:
            raise SeamarkError("the health server is not started")
        return self._pages.address

    def close(self) -> None:
        if self._pages is not None:
            self._pages.close()
            self._pages = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _page(self, path: str) -> Page:
        if path not in ("/healthz", "/readyz", "/metrics"):
            return Page("not found; the pages are /healthz, /readyz and /metrics\n", HTTPStatus.NOT_FOUND)
        try:
            status = self._consumer.blocking_status()
        except SeamarkError as error:
            return Page(f"{error}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        if path == "/metrics":
            return Page(metrics_text(status), content_type=CONTENT_TYPE)
        if path == "/readyz":
            reason = unready(status)
            return Page("ok\n") if reason is None else Page(f"{reason}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        reasons = complaints(status, max_stall=self._max_stall, max_commit_failing=self._max_commit_failing)
        notes = degradations(status)
        text = "".join(f"{line}\n" for line in (*reasons, *notes))
        if reasons:
            return Page(text, HTTPStatus.SERVICE_UNAVAILABLE)
        return Page(f"degraded\n{text}" if notes else "ok\n")
