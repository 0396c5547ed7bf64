"""``seamark exporter``: lag of all groups for Prometheus, without a screen."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.options.connection import Bootstrap, ConfigFile, Options, client_config
from seamark.cli.options.names import GroupsOrAll
from seamark.cli.show.durations import pause_of
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.http_pages import Page
    from seamark.monitor.poller import Poller

_Listen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Address to listen on; port 0 picks a free port.")
]
_Every = Annotated[str, typer.Option("--every", metavar="15s", help="Poll interval.")]
_Reset = Annotated[
    str,
    typer.Option(
        "--reset",
        metavar="earliest|latest",
        help="Where the lag of a partition without a commit starts; default: it has no lag.",
    ),
]
_AllowedHost = Annotated[
    list[str],
    typer.Option(
        "--allowed-host",
        metavar="NAME",
        help="Another allowed host name, in addition to IP addresses and localhost; may be repeated.",
    ),
]
# Looks that failed for so many intervals make it unhealthy.
_MISSED = 5


def add_to(app: typer.Typer) -> None:
    app.command("exporter")(exporter)


def exporter(
    names: GroupsOrAll = None,
    listen: _Listen = "127.0.0.1:9308",
    every: _Every = "15s",
    reset: _Reset = "",
    allowed_host: _AllowedHost = [],  # noqa: B006 - typer wants the default itself
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
) -> None:
    """Serve the lag of groups to Prometheus.

    It serves /metrics and /healthz, prints where, and runs until Ctrl-C.

    \b
    Examples:
      seamark exporter --bootstrap localhost:9092
      seamark exporter billing shipping --listen 127.0.0.1:9308 --every 30s
    """
    from seamark.client import Admin
    from seamark.http_pages import HttpPages
    from seamark.monitor.poller import Poller

    if reset not in ("", "earliest", "latest"):
        raise UsageError(f"--reset {reset!r} is neither earliest nor latest")
    seconds = pause_of(every)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with Admin(client_config(bootstrap, config, option)) as admin:
        poller = Poller(admin, groups=names, every=seconds, reset=reset or None)
        with HttpPages(
            lambda path: page(poller, path, seconds), listen, name="seamark-exporter", allowed_hosts=allowed_host
        ) as pages:
            poller.start()
            typer.echo(f"ready metrics=http://{pages.address}/metrics")
            ended.wait()
        poller.close()


def page(poller: Poller, path: str, every: float) -> Page:
    from http import HTTPStatus

    from seamark.http_pages import Page
    from seamark.monitor.exposition import metrics_text
    from seamark.prometheus_text import CONTENT_TYPE

    if path == "/metrics":
        return Page(metrics_text(poller), content_type=CONTENT_TYPE)
    if path != "/healthz":
        return Page("the pages are /metrics and /healthz\n", HTTPStatus.NOT_FOUND)
    seen = poller.seen
    if seen.look is None:
        reason = seen.error or "the cluster has not been polled yet"
        return Page(f"{reason}\n", HTTPStatus.SERVICE_UNAVAILABLE)
    age = seen.look.age
    if age > _MISSED * every + seen.look.seconds:
        reason = f"the last poll of the cluster is {age:.0f} s old: {seen.error or 'a poll takes too long'}"
        return Page(f"{reason}\n", HTTPStatus.SERVICE_UNAVAILABLE)
    return Page("ok\n")
