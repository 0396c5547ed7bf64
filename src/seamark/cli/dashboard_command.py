"""``seamark dashboard``: groups, topics and resets of clusters in a browser.

It listens on this machine only, unless it is given TLS or told that a proxy before it does that. Changes are off unless
they are allowed. The token to log in with is printed once, in a link; one of your own comes from the environment or a
file, never from the command line, where others could read it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.addresses import is_loopback, parse_address
from seamark.cli.options.connection import Bootstrap, ConfigFile, Options, client_config, read_properties
from seamark.cli.show.durations import count_of, duration_text, pause_of, seconds_of, time_ms_of
from seamark.cli.show.terminal_text import say
from seamark.errors import MissingExtra, UsageError
from seamark.http_hosts import AllowedHosts

if TYPE_CHECKING:
    from seamark.dashboard.sight import Limits
    from seamark.monitor.history import History

_Listen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Address to listen on; port 0 picks a free port.")
]
_Cluster = Annotated[
    list[str],
    typer.Option(
        "--cluster", metavar="NAME=HOST:PORT|FILE", help="A cluster, by address or properties file; may be repeated."
    ),
]
_Every = Annotated[str, typer.Option("--every", metavar="10s", help="Poll interval.")]
_Reset = Annotated[
    str,
    typer.Option(
        "--reset",
        metavar="earliest|latest",
        help="Where the lag of a partition without a commit starts; default: unknown, or earliest with --alert-over.",
    ),
]
_AllowChanges = Annotated[
    bool, typer.Option("--allow-changes", help="Allow logged-in users to reset the offsets of groups.")
]
_State = Annotated[
    str,
    typer.Option(
        "--state", metavar="DIR", help="Directory for history and plans; default: ~/.local/state/seamark/dashboard."
    ),
]
_TokenFile = Annotated[
    str,
    typer.Option("--token-file", metavar="FILE", help="A file with the login token; or set SEAMARK_DASHBOARD_TOKEN."),
]
_Certificate = Annotated[str, typer.Option("--tls-cert", metavar="FILE", help="Certificate chain for TLS.")]
_Key = Annotated[str, typer.Option("--tls-key", metavar="FILE", help="Private key of the certificate.")]
_Proxy = Annotated[
    bool, typer.Option("--behind-proxy", help="A proxy in front terminates TLS; --listen may then be any address.")
]
_AllowedHost = Annotated[
    list[str],
    typer.Option(
        "--allowed-host",
        metavar="NAME",
        help="Another allowed host name, in addition to IP addresses and localhost; may be repeated.",
    ),
]
_AlertUrl = Annotated[
    str,
    typer.Option("--alert-url", envvar="SEAMARK_ALERT_URL", metavar="URL", help="Webhook for alerts."),
]
_AlertOver = Annotated[
    list[str],
    typer.Option(
        "--alert-over",
        metavar="10m|1000",
        help="Also alert if a group is further behind than this, in time or in records.",
    ),
]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ADDRESSES = re.compile(r"[^,=]+:\d+(,[^,=]+:\d+)*")


def add_to(app: typer.Typer) -> None:
    app.command("dashboard")(dashboard)


def dashboard(
    listen: _Listen = "127.0.0.1:8088",
    cluster: _Cluster = [],  # noqa: B006 - typer wants the default itself
    every: _Every = "10s",
    reset: _Reset = "",
    allow_changes: _AllowChanges = False,
    state: _State = "",
    token_file: _TokenFile = "",
    tls_cert: _Certificate = "",
    tls_key: _Key = "",
    behind_proxy: _Proxy = False,
    allowed_host: _AllowedHost = [],  # noqa: B006
    alert_url: _AlertUrl = "",
    alert_over: _AlertOver = [],  # noqa: B006
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
) -> None:
    """Show groups, lag and topics in a browser.

    It prints a link to log in with, and runs until Ctrl-C. Nothing can be changed without --allow-changes.

    \b
    Examples:
      seamark dashboard --bootstrap localhost:9092
      seamark dashboard --cluster test=t1:9092 --cluster prod=prod.properties
    """
    if reset not in ("", "earliest", "latest"):
        raise UsageError(f"--reset {reset!r} is neither earliest nor latest")
    pause = pause_of(every)
    if bool(tls_cert) != bool(tls_key):
        raise UsageError("--tls-cert and --tls-key must be given together")
    check_listen(listen, is_secured=bool(tls_cert) or behind_proxy)
    hosts = AllowedHosts(parse_address("listen", listen).host, allowed_host)
    configs = clusters(cluster, bootstrap, config, option)
    limits = limits_of(alert_over)
    given = given_token(token_file)
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtra("the dashboard", "dashboard") from None
    from seamark.client import Admin
    from seamark.dashboard.access import Access, new_token
    from seamark.dashboard.app import Dashboard
    from seamark.dashboard.serving import Server
    from seamark.dashboard.sight import Sight
    from seamark.dashboard.wording import Wording
    from seamark.monitor.targets import parse_target
    from seamark.monitor.webhook import Webhook

    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    token = given or new_token()
    wording = Wording(
        duration_text,
        lambda text: parse_target(
            text, now_ms=int(time.time() * 1000), time_ms_of=time_ms_of, seconds_of=seconds_of, option=""
        ),
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        history, directory = opened_history(state, allow_changes=allow_changes)
        stack.callback(history.close)
        webhook = None
        if alert_url:
            webhook = Webhook(alert_url)
            stack.callback(webhook.close)
        sights = []
        for name, options in configs.items():
            sight = Sight(
                name, Admin(options), history, every=pause, limits=limits, webhook=webhook,
                reset=reset or ("earliest" if alert_over else None),
            )  # fmt: skip
            stack.callback(sight.close)
            sights.append(sight)
        plans = directory / "plans" if allow_changes and directory else None
        made = Dashboard(
            sights, Access(token, time.monotonic), wording, plans=plans,
            is_secure=bool(tls_cert) or behind_proxy, hosts=hosts, is_behind_proxy=behind_proxy,
        )  # fmt: skip
        server = stack.enter_context(
            Server(made, listen, certificate=tls_cert, key=tls_key, is_behind_proxy=behind_proxy)
        )
        for sight in sights:
            sight.start()
        url = f"{'https' if tls_cert else 'http'}://{server.address}"
        # A token that the user chose is known to them and is not shown.
        typer.echo(f"ready dashboard={url}/login" if given else f"ready dashboard={url}/login#{token}")
        ended.wait()


def check_listen(listen: str, *, is_secured: bool) -> None:
    """UsageError if others could reach it without anything that keeps the token secret on its way."""
    if not is_loopback(parse_address("listen", listen).host) and not is_secured:
        raise UsageError(
            f"--listen {listen}: not a loopback address: give --tls-cert and --tls-key, or --behind-proxy if "
            "a proxy terminates TLS"
        )


def clusters(named: list[str], bootstrap: str, config: str, options: list[str]) -> dict[str, dict[str, str]]:
    """The client configuration of each cluster by its name; ``-o`` counts for all of them."""
    configs: dict[str, dict[str, str]] = {}
    for text in named:
        name, mark, where = text.partition("=")
        if not mark or not where or not _NAME.fullmatch(name):
            raise UsageError(
                f"--cluster {text!r}: must be NAME=HOST:PORT or NAME=FILE; a name consists of letters, digits, . _ -"
            )
        if name in configs:
            raise UsageError(f"--cluster {name}: given twice")
        given = (
            [f"{key}={value}" for key, value in read_properties(Path(where)).items()]
            if not _ADDRESSES.fullmatch(where)
            else []
        )
        configs[name] = client_config("" if given else where, "", [*given, *options])
    if bootstrap or config or not configs:
        if "main" in configs:
            raise UsageError("--cluster main: this name is used for the cluster of --bootstrap")
        configs = {"main": client_config(bootstrap, config, options), **configs}
    return configs


def limits_of(texts: list[str]) -> Limits:
    """Records, or seconds where a unit is written; of several the last of a kind counts."""
    from seamark.dashboard.sight import Limits

    records = [count for text in texts if (count := count_of(text)) is not None]
    seconds = [seconds_of(text) for text in texts if count_of(text) is None]
    return Limits(records[-1] if records else None, seconds[-1] if seconds else None)


def given_token(path: str) -> str:
    """The user's own token, or empty."""
    from seamark.dashboard.access import SHORTEST_TOKEN

    if path:
        try:
            token = Path(path).read_text(encoding="utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--token-file {path}: cannot be read ({error.__class__.__name__})") from None
        source = f"--token-file {path}"
    else:
        token, source = os.environ.get("SEAMARK_DASHBOARD_TOKEN", "").strip(), "SEAMARK_DASHBOARD_TOKEN"
    if (path or token) and len(token) < SHORTEST_TOKEN:
        raise UsageError(f"{source}: the token must have at least {SHORTEST_TOKEN} characters")
    return token


def opened_history(state: str, *, allow_changes: bool) -> tuple[History, Path | None]:
    """The history, and the directory for it and for plans; memory alone where the usual directory cannot be used.

    Who named a directory wants what is in it, and who changes something wants the way back: for them that is an error.
    """
    from seamark.monitor.history import History, HistoryError

    directory = None
    try:
        directory = state_directory(state)
        return History(directory / "history.sqlite3"), directory
    except (HistoryError, UsageError) as error:
        if state or (allow_changes and directory is None):
            raise
        say(f"seamark: graphs are not kept across restarts: {error}; --state DIR chooses another directory")
        return History.in_memory(str(error)), directory


def state_directory(path: str) -> Path:
    """Where history and plans are kept, made if it is not there."""
    try:
        root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise UsageError("no home directory for history and plans: give --state DIR") from None
    directory = Path(path) if path else Path(root) / "seamark" / "dashboard"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--state {directory}: cannot be created ({error.strerror})") from None
    return directory
