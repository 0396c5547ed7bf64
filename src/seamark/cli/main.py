"""The ``seamark`` command: options that every command shares, and the edge where errors become one sentence.

Exit codes: 0 ok, 1 error, 2 usage, 3 limit exceeded, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from seamark._version import __version__
from seamark.cli.deferred_commands import DeferredGroup, Listed
from seamark.cli.show.terminal_text import say
from seamark.cli.show.warnings_shown import warnings_shown
from seamark.errors import SeamarkError, UsageError

COMMANDS = {
    "quickstart": Listed("quickstart_command", "Run a demo of everything, in a minute or two."),
    "broker": Listed("broker_command", "Run a Kafka broker without Java."),
    "dashboard": Listed("dashboard_command", "Show groups, lag and topics in a browser."),
    "exporter": Listed("exporter_command", "Serve the lag of groups to Prometheus."),
    "lag": Listed("groups.lag_command", "Show how far groups are behind, in records and time."),
    "produce": Listed("records.commands", "Write records from lines, JSON or CSV."),
    "consume": Listed("records.commands", "Read records."),
    "simulate": Listed("simulate_command", "Simulate consumer groups with faults, in virtual time."),
    "audit": Listed("audit.command", "Keep the history of offsets, and find problems."),
    "dead-letters": Listed("dead_letters.command", "Inspect and replay dead letters."),
    "groups": Listed("groups.commands", "Inspect consumer groups and reset their offsets safely."),
    "migrate": Listed("migrate.command", "Move offsets between stores, groups and clusters."),
    "spark-checkpoint": Listed("spark_checkpoint_command", "Inspect a Spark checkpoint, and set a group to it."),
    "topics": Listed("topics_commands", "Inspect, create, change and delete topics."),
    "wire": Listed("wire_commands", "Decode Kafka's bytes."),
    "completion": Listed("completion_command", "Print a shell completion script."),
}
# Set by the script of ``seamark completion`` when it asks how a line may go on.
_COMPLETE = "_SEAMARK_COMPLETE"


class _Root(DeferredGroup):
    listed = COMMANDS


app = typer.Typer(
    name="seamark",
    cls=_Root,
    help="How far has this Kafka consumer group safely got?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    """Say how far a Kafka consumer group has safely got."""


def main() -> None:
    if os.environ.get(_COMPLETE):
        from seamark.cli.completion_command import answer_the_shell

        answer_the_shell()
    try:
        with warnings_shown():
            app(prog_name="seamark")
    except SeamarkError as error:
        say(f"seamark: {error}")
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:
        # ``seamark groups list | head`` ends when head has seen enough; what is left has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
