"""The ``seamark`` command: options that every command shares, and the edge where errors become one sentence.

Exit codes: 0 ok, 1 error, 2 usage, 3 limit exceeded, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from seamark._version import __version__
from seamark.cli import broker_command, simulate_command, wire_commands
from seamark.errors import SeamarkError

app = typer.Typer(
    name="seamark",
    help="How far has this Kafka consumer group safely got?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seamark {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    """Say how far a Kafka consumer group has safely got."""


broker_command.add_to(app)
simulate_command.add_to(app)
wire_commands.add_to(app)


def main() -> None:
    try:
        app()
    except SeamarkError as error:
        typer.echo(f"seamark: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
