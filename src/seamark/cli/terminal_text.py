"""Sentences of a command: one line each, whatever the names in them are."""

from __future__ import annotations

import typer

from seamark.readable_text import readable


def say(sentence: str) -> None:
    """One line on standard error."""
    typer.echo(readable(sentence), err=True)


def tell(sentence: str) -> None:
    """One line on standard output."""
    typer.echo(readable(sentence))
