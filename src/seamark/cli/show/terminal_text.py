"""Sentences of a command: one line each, whatever the names in them are, and never longer than a screen."""

from __future__ import annotations

import re

import typer

from seamark.readable_text import middle_cut, readable

_MOST_WORD = 300
_LONG_WORD = re.compile(rf"\S{{{_MOST_WORD + 1},}}")
_MOST_SENTENCE = 4000


def say(sentence: str) -> None:
    """One line on standard error."""
    typer.echo(one_line(sentence), err=True)


def tell(sentence: str) -> None:
    """One line on standard output."""
    typer.echo(one_line(sentence))


def one_line(sentence: str) -> str:
    """The sentence without control characters; a name of somebody else's making may be of any length, and is cut."""
    text = readable(sentence)
    if len(text) > _MOST_WORD:
        text = _LONG_WORD.sub(lambda word: middle_cut(word[0], _MOST_WORD), text)
    return middle_cut(text, _MOST_SENTENCE)
