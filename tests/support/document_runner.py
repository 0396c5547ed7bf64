"""Runs the examples of a document from top to bottom, as its reader would: programs, and commands with their output.

A ``python`` block is executed; the blocks of a document share their names. In a ``console`` block every line that
begins with ``$ seamark`` is run, and the lines below it must be what comes on the screen: an ellipsis stands for
anything, and ``(exit 1)`` at the end for a command that fails with that code. Commands talk to the document's
``broker``, or to the address in ``bootstrap``.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

_BLOCK = re.compile(r"^```([a-z]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """``line`` is that of the document where the content begins."""

    language: str
    text: str
    line: int


class Command(NamedTuple):
    words: list[str]
    screen: str
    line: int
    code: int = 0


def blocks_of(text: str) -> list[Block]:
    found = _BLOCK.finditer(text)
    return [Block(match[1], match[2], text.count("\n", 0, match.start()) + 2) for match in found]


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a console block with what each is said to print."""
    for piece in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
        line = block.line + block.text.count("\n", 0, piece.start())
        screen, _, code = piece[2].partition("(exit ")
        yield Command(shlex.split(piece[1]), screen, line, int(code.strip().removesuffix(")") or 0))


def run_document(path: Path, names: Mapping[str, Any], *, language: str = "python") -> int:
    """Run the blocks in that language and the console blocks, in order; gives how many there were.

    AssertionError names the line of the document where it says something else than what happens.
    """
    known = dict(names)
    count = 0
    for block in blocks_of(path.read_text(encoding="utf-8")):
        if block.language == language:
            # Line numbers of a trace are then those of the document.
            program = "\n" * (block.line - 1) + block.text
            exec(compile(program, str(path), "exec"), known)
            count += 1
        elif block.language == "console":
            for command in commands_of(block):
                _run_command(path, command, known)
            count += 1
    return count


def _run_command(path: Path, command: Command, names: Mapping[str, Any]) -> None:
    from seamark.cli.main import main

    where = f"{path.name}, line {command.line}"
    assert command.words[0] == "seamark", f"{where}: only seamark's commands can be run, not {command.words[0]!r}"
    bootstrap = names["bootstrap"] if "bootstrap" in names else names["broker"].bootstrap
    screen = io.StringIO()
    with (
        mock.patch.object(sys, "argv", command.words),
        mock.patch.dict(os.environ, {"SEAMARK_BOOTSTRAP": bootstrap}),
        contextlib.redirect_stdout(screen),
        contextlib.redirect_stderr(screen),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        else:
            code = 0
    came = screen.getvalue()
    assert code == command.code, f"{where}: it ended with {code}: {came}"
    assert _is_as_said(came, command.screen), f"{where}: this came on the screen:\n{came}"


def _is_as_said(came: str, said: str) -> bool:
    lines, expected = ([line.rstrip() for line in text.strip("\n").split("\n")] for text in (came, said))
    pattern = "\n".join(".*".join(map(re.escape, line.split("…"))) for line in expected)
    return re.fullmatch(pattern, "\n".join(lines)) is not None
