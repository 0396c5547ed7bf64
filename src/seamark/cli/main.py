"""The ``seamark`` command: options that every command shares, and the edge where errors become one sentence.

Exit codes: 0 ok, 1 error, 2 usage, 3 limit exceeded, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from seamark._version import __version__
from seamark.cli import (
    broker_command,
    dashboard_command,
    dead_letters_command,
    exporter_command,
    groups_commands,
    lag_command,
    records_commands,
    simulate_command,
    spark_checkpoint_command,
    topics_commands,
    wire_commands,
)
from seamark.errors import SeamarkError, UsageError

app = typer.Typer(
    name="seamark",
    help="How far has this Kafka consumer group safely got?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: the other form imports so much that it takes longer than most commands do.
    rich_markup_mode=None,
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
dashboard_command.add_to(app)
dead_letters_command.add_to(app)
exporter_command.add_to(app)
groups_commands.add_to(app)
lag_command.add_to(app)
records_commands.add_to(app)
simulate_command.add_to(app)
spark_checkpoint_command.add_to(app)
topics_commands.add_to(app)
wire_commands.add_to(app)


def main() -> None:
    try:
        app()
    except SeamarkError as error:
        typer.echo(f"seamark: {error}", err=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:
        # ``seamark groups list | head`` ends when head has seen enough; what is left has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
