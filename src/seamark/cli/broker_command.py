"""``seamark broker``: the embedded broker as a process.

One line on standard output says that it serves and where; everything else goes to standard error. SIGTERM and SIGINT
end it cleanly: what was taken in is synced and the data directory is marked as closed.
"""

from __future__ import annotations

from typing import Annotated

import typer

from seamark.errors import UsageError

_Listen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Address to listen on; port 0 picks a free port.")
]
_Data = Annotated[
    str,
    typer.Option(
        "--data", metavar="DIR", help="Data directory for topics and groups; without it, everything is in memory."
    ),
]
_Nodes = Annotated[int, typer.Option("--nodes", metavar="N", help="Number of nodes, on consecutive ports.")]
_Durability = Annotated[
    str,
    typer.Option(
        "--durability",
        metavar="os|commit",
        help="Acknowledge writes once the operating system has them (os) or once they are on disk (commit).",
    ),
]
_Option = Annotated[
    list[str], typer.Option("-o", "--option", metavar="KEY=VALUE", help="A Kafka broker setting; may be repeated.")
]
_Insecure = Annotated[
    bool, typer.Option("--insecure", help="Allow listening on a public address without any security.")
]
_MaxVersions = Annotated[
    str, typer.Option("--max-versions", metavar="RELEASE", help="Advertise the API versions of this Kafka release.")
]
_Metrics = Annotated[
    str, typer.Option("--metrics", metavar="HOST:PORT", help="Address for Prometheus metrics and health checks.")
]
_Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log normal events too, not only warnings.")]


def add_to(app: typer.Typer) -> None:
    app.command("broker")(broker)


def broker(
    listen: _Listen = "127.0.0.1:9092",
    data: _Data = "",
    nodes: _Nodes = 1,
    durability: _Durability = "os",
    option: _Option = [],  # noqa: B006 - typer wants the default itself
    insecure: _Insecure = False,
    max_versions: _MaxVersions = "",
    metrics: _Metrics = "",
    verbose: _Verbose = False,
) -> None:
    """Run a Kafka broker without Java.

    It speaks Kafka's protocol over TCP, so that any client can use it. Ctrl-C stops it.

    \b
    Examples:
      seamark broker
      seamark broker --data ./broker-data -o num.partitions=3
    """
    from seamark.broker.foreground import run

    settings = {}
    for text in option:
        key, mark, value = text.partition("=")
        if not mark or not key:
            # Not the text: it may be a password.
            raise UsageError("-o must be KEY=VALUE")
        settings[key] = value
    if metrics:
        settings["seamark.metrics.listen"] = metrics
    run(
        say=typer.echo,
        verbose=verbose,
        listen=listen,
        data=data or None,
        nodes=nodes,
        durability=durability,
        settings=settings,
        insecure=insecure,
        max_versions=max_versions or None,
    )
