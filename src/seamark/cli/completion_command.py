"""``seamark completion bash|zsh|fish``: the script that completes commands, options, and names of groups and topics.

The script asks ``seamark`` itself, with a variable in the environment, so it never grows old. Names come from the
cluster that the line names, or that SEAMARK_BOOTSTRAP does; a cluster that does not answer soon completes nothing,
because a shell has no place for an error in the middle of a line. A name that a shell would not take for a plain word
is not completed.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seamark.errors import SeamarkError, UsageError

if TYPE_CHECKING:
    from seamark.client.admin.admin import Admin

VARIABLE = "_SEAMARK_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
# A person waits with a finger on the key.
_PATIENCE_MS = "2000"
# Letters and digits of every script, and signs that mean nothing to a shell within a word.
_PLAIN = re.compile(r"[\w.][\w./@+-]*")

_Shell = Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]


def add_to(app: typer.Typer) -> None:
    app.command("completion")(completion)


def completion(shell: _Shell) -> None:
    """Print a shell completion script.

    bash: eval "$(seamark completion bash)" in ~/.bashrc. zsh: the same with zsh in ~/.zshrc, after compinit.
    fish: seamark completion fish > ~/.config/fish/completions/seamark.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined] # it is used from there

    if shell not in SHELLS:
        raise UsageError(f"{shell!r} is not one of {', '.join(SHELLS)}")
    typer.echo(get_completion_script(prog_name="seamark", complete_var=VARIABLE, shell=shell))


def answer_the_shell() -> None:
    """Get ready for the question of a completion script, which the command line then answers.

    Nothing is logged: standard error would be written into the line that is being typed.
    """
    from typer.completion import completion_init  # type: ignore[attr-defined] # as above

    logging.disable()
    completion_init()


def group_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Groups of the cluster that begin like this and are not on the line yet."""
    return _names(ctx, incomplete, lambda admin: [listing.group_id for listing in admin.list_groups()])


def topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics of the cluster that begin like this and are not on the line yet."""
    return _names(ctx, incomplete, lambda admin: list(admin.list_topics()))


def _names(ctx: typer.Context, incomplete: str, ask: Any) -> list[str]:
    from seamark.cli.connection_options import client_config
    from seamark.client import Admin

    given = ctx.params
    try:
        config = client_config(given.get("bootstrap") or "", given.get("config") or "", given.get("option") or [])
        admin: Admin
        with Admin(config | {"default.api.timeout.ms": _PATIENCE_MS}) as admin:
            found = ask(admin)
    except SeamarkError:
        return []
    there = given.get("names") or []
    return sorted(name for name in found if name.startswith(incomplete) and name not in there and _is_plain(name))


def _is_plain(name: str) -> bool:
    """Whether a shell takes the name for a word, and not for something to run.

    What is completed stands in the line as it is, and zsh even evaluates the answer; anybody may name a group.
    """
    return _PLAIN.fullmatch(name) is not None
