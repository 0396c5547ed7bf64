"""Runs ``seamark`` commands in this process, as a user would see them: exit code, standard output, standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest

from seamark.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_like import KafkaLike


@pytest.fixture
def seamark(
    kafka_like: KafkaLike, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Ran]:
    """Runs a command line on the broker of the test, or on another, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    run = command_runner(capsys, monkeypatch)

    def on_cluster(*words: str, bootstrap: str = kafka_like.bootstrap) -> Ran:
        monkeypatch.setenv("SEAMARK_BOOTSTRAP", bootstrap)
        return run(*words)

    return on_cluster


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
