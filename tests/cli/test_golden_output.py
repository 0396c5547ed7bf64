"""What every command prints in a terminal of 80 and of 200 columns is what tests/golden has; see its README."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
import typer.main

from tests.cli.golden_scenario import StandingClock, scenario
from tests.cli.golden_sessions import SESSIONS
from tests.support.terminal import PseudoTerminal, seen_by_a_person

GOLDEN = Path(__file__).parents[1] / "golden"
WIDTHS = (80, 200)
# Nobody shortens what programs read, or a record; and what has fourteen columns does not fit into eighty.
NOT_FITTED = ("--json", "--csv", "wire ", "groups export", "from-group", "consume ", "dead-letters show", "--more")


@pytest.fixture(scope="module", params=WIDTHS)
def width(request):
    return request.param


@pytest.fixture(scope="module")
def cluster(width, tmp_path_factory):
    """A cluster and a directory of its own for each width: sessions change both."""
    directory = tmp_path_factory.mktemp(f"golden-{width}")
    with scenario(directory) as made:
        yield made, directory


def compare(name: str, width: int, text: str) -> None:
    path = GOLDEN / str(width) / f"{name}.txt"
    if os.environ.get("SEAMARK_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{path} differs; tests/golden/README.md says how to write it anew"


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_prints_what_it_always_prints(name, width, cluster, monkeypatch):
    made, directory = cluster
    monkeypatch.chdir(directory)
    monkeypatch.setattr("seamark.cli.groups.lag_command.time", StandingClock)
    if name != "without-a-cluster":
        monkeypatch.setenv("SEAMARK_BOOTSTRAP", made.bootstrap)
    told = []
    for line in SESSIONS[name]:
        command, _, typed = line.partition(" < ")
        seen = seen_by_a_person(shlex.split(command), width, monkeypatch, typed=typed)
        text = made.masked(seen.text)
        ended = f"(exit {seen.code})\n" if seen.code else ""
        told.append(f"$ seamark {command}\n{text}{ended}")
        assert "Traceback (most recent call last)" not in text or "dead-letters show" in command
        if not any(mark in command for mark in NOT_FITTED):
            table = [each for each in text.splitlines() if not each.startswith("seamark:") and "  " in each.strip()]
            assert max((len(each) for each in table), default=0) <= width, command
    compare(name, width, "\n".join(told))


def test_the_help_of_every_command_is_what_it_always_is(monkeypatch):
    """At 80 columns: help is never wider."""
    from seamark.cli.main import app

    def commands(command, path):
        found = [path]
        if hasattr(command, "list_commands"):
            context = command.make_context(command.name, [], resilient_parsing=True)
            for name in sorted(command.list_commands(context)):
                found += commands(command.get_command(context, name), (*path, name))
        return found

    told = []
    for path in commands(typer.main.get_command(app), ()):
        seen = seen_by_a_person([*path, "--help"], 80, monkeypatch)
        assert seen.code == 0
        told.append(f"$ {' '.join(['seamark', *path, '--help'])}\n{seen.text}")
    compare("help", 80, "\n".join(told))


def test_a_real_terminal_shows_the_same(width, cluster, monkeypatch):
    made, directory = cluster
    words = ["groups", "describe", "reports", "--bootstrap", made.bootstrap]
    monkeypatch.chdir(directory)
    expected = seen_by_a_person(words, width, monkeypatch)
    with PseudoTerminal([Path(sys.executable).with_name("seamark"), *words], width, cwd=directory) as terminal:
        assert terminal.wait() == expected.code == 0
        assert terminal.text == expected.text
