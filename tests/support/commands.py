"""Runs ``seamark`` commands in this process, as a user would see them: exit code, standard output, standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from seamark.cli.main import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def command_runner(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """A function that runs ``seamark`` with the given arguments."""

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["seamark", *arguments])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run
