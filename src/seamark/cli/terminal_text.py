"""Text for the terminal: what names from a cluster or a file must not do there.

A broker's answer may have any character in a name. One that moves the cursor, colours the screen, turns the direction
of writing or begins a new line could hide what a command says, or forge a line of it.
"""

from __future__ import annotations

import typer


def printable(text: str) -> str:
    """The text in one line, with a mark in place of every character that is not printable."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def say(sentence: str) -> None:
    """One line on standard error."""
    typer.echo(printable(sentence), err=True)
