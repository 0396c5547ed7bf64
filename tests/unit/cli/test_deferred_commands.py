"""Help, completion and mistakes are answered at once: what a command needs is loaded when that command runs."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import seamark.cli
from seamark.cli.main import COMMANDS, app

# What each would cost is between a twentieth of a second and several.
HEAVY = {
    "asyncio", "confluent_kafka", "http.client", "http.server", "kazoo", "numba", "numpy", "pandas", "plotly",
    "pyarrow", "pyspark", "rich", "sqlite3", "ssl", "starlette", "uvicorn", "uvloop",
}  # fmt: skip
# Of 80 columns, what is left beside the longest name.
LINE = 58
OURS = {"seamark.broker", "seamark.client", "seamark.dashboard", "seamark.monitor", "seamark.plans", "seamark.spark"}


def loaded_by(*words):
    program = (
        "import sys\n"
        "from seamark.cli.main import main\n"
        f"sys.argv = ['seamark', *{list(words)!r}]\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    code = ended.code\n"
        "print('\\n' + '\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(ran.stderr.splitlines())


@pytest.mark.parametrize("words", [["--help"], ["groups", "--help"], ["groups", "reset", "--help"], ["--version"]])
def test_help_loads_nothing_that_only_a_running_command_needs(words):
    loaded = loaded_by(*words)
    assert "seamark.cli.main" in loaded
    assert sorted(loaded & HEAVY) == []
    assert sorted(loaded & OURS) == []


@pytest.mark.parametrize(
    ("words", "modules"),
    [
        (["--help"], set()),
        (["no-such-command"], set()),
        (["wire", "--help"], {"seamark.cli.wire_commands"}),
    ],
)
def test_only_the_command_that_is_called_is_loaded(words, modules):
    commands = {f"seamark.cli.{listed.module}" for listed in COMMANDS.values()}
    assert loaded_by(*words) & commands == modules


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_listed_is_what_there_is(name):
    command = typer.main.get_command(app).commands[name]
    line = COMMANDS[name].line
    told = command.get_short_help_str(200)
    assert command.name == name
    # A longer text is told in other words: one line of a narrow terminal has to do.
    assert line == told if len(told) <= LINE else len(line) <= LINE


def test_no_command_is_left_out_of_the_list():
    folder = Path(seamark.cli.__file__).parent
    adds_to_root = {
        ".".join(file.relative_to(folder).with_suffix("").parts)
        for file in folder.rglob("*.py")
        if "def add_to(app:" in file.read_text()
    }
    assert {listed.module for listed in COMMANDS.values()} == adds_to_root


def test_a_mistyped_command_is_answered_with_the_nearest():
    answer = CliRunner().invoke(app, ["grups"])
    assert (answer.exit_code, "Did you mean 'groups'?" in answer.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["simulate", "--seed", "abc"], "Invalid value for '--seed': 'abc' is not an integer"),
        (["consume", "t", "--partition", "1.5"], "Invalid value for '--partition': '1.5' is not an integer"),
        (["lag", "--fail-over", "-1"], "--fail-over '-1': must be a number of records >= 0"),
    ],
)
def test_a_value_that_is_no_number_is_named(words, sentence):
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code != 0
    assert sentence in f"{answer.output}{answer.exception}"


def test_scenarios_are_listed_in_columns():
    lines = CliRunner().invoke(app, ["simulate", "--list"]).output.splitlines()
    assert len({len(line) - len(line.partition("  ")[2].lstrip()) for line in lines}) == 1


def test_a_mistake_in_an_option_is_found_before_anything_is_loaded():
    assert sorted(loaded_by("groups", "describe", "--no-such-option") & (HEAVY | OURS)) == []


def test_a_command_that_looks_at_groups_needs_no_columns_no_pages_and_no_spark():
    program = (
        "import sys\n"
        "from seamark.cli.main import main\n"
        "from seamark.client import Admin\n"
        "from seamark.client.admin.admin import Admin\n"
        "from seamark.monitor import lag_report, scan\n"
        "print('\\n'.join(sys.modules))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(ran.stdout.splitlines())
    assert sorted(loaded & (HEAVY - {"asyncio", "ssl", "uvloop"})) == []
