"""``seamark completion bash|zsh|fish``: the script that completes commands, options, and names of groups and topics.

The script asks ``seamark`` itself, with a variable in the environment, so it never grows old. Names come from the
cluster that the line names, or that SEAMARK_BOOTSTRAP does (``options.names``).
"""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from seamark.errors import UsageError

VARIABLE = "_SEAMARK_COMPLETE"
SHELLS = ("bash", "zsh", "fish")

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
