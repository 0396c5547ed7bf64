"""``seamark groups``: the commands about consumer groups under one name."""

from __future__ import annotations

import typer

from seamark.cli.groups import change as groups_change_commands
from seamark.cli.groups import view as groups_view_commands


def add_to(app: typer.Typer) -> None:
    groups = typer.Typer(
        name="groups", help="Inspect consumer groups and reset their offsets safely.", no_args_is_help=True
    )
    groups_view_commands.add_to(groups)
    groups_change_commands.add_to(groups)
    app.add_typer(groups)
