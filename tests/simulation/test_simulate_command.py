"""``seamark simulate``: what it prints, what it exits with, and that it replays."""

import json

import pytest
import typer
from typer.testing import CliRunner

from seamark.cli import simulate_command
from seamark.errors import UsageError
from seamark.simulation import SCENARIOS, Lifetime, scenario_named
from seamark.simulation.broker.invariants import Invariants
from seamark.simulation.world.violations import InvariantViolated


@pytest.fixture
def simulate():
    app = typer.Typer()
    simulate_command.add_to(app)
    runner = CliRunner()

    def run(*arguments, exit_code=0):
        result = runner.invoke(app, [str(each) for each in arguments])
        if exit_code is not None:
            assert result.exit_code == exit_code, result.output
        return result

    return run


def test_one_lifetime_tells_what_it_was_made_of(simulate):
    line = simulate("--seed", 3).output
    assert "seed=3" in line
    assert "commits=" in line


def test_a_scenario_of_real_clients_tells_what_was_processed(simulate):
    line = simulate("--scenario", "clients", "--seed", 3).output
    assert "scenario=clients seed=3" in line
    assert int(line.split("processed=")[1].split()[0]) > 0


def test_many_lifetimes_are_summed_up_in_one_line(simulate):
    output = simulate("--scenario", "calm", "--count", 5, "--seed", 10).output
    assert output == "5 lifetimes of scenario calm, seeds 10 to 14: 0 failed\n"


def test_json_has_a_line_per_lifetime_with_the_digest_of_its_course(simulate):
    lines = [json.loads(line) for line in simulate("--count", 2, "--json").output.splitlines()]
    assert [line["seed"] for line in lines] == [0, 1]
    lifetime = Lifetime(1, scenario_named("random"))
    lifetime.run()
    assert lines[1]["digest"] == lifetime.transcript.digest()


def test_a_transcript_shows_every_event(simulate):
    output = simulate("--seed", 3, "--transcript").output
    lifetime = Lifetime(3, scenario_named("random"))
    lifetime.run()
    assert output.startswith(lifetime.transcript.text())


def test_a_failure_is_told_with_seed_step_and_events_and_exits_with_1(simulate, monkeypatch):
    def fail(*_):
        raise InvariantViolated("a rule", "was broken")

    monkeypatch.setattr(Invariants, "check_applied", fail)
    output = simulate("--seed", 4, exit_code=1).output
    assert "seed 4 of scenario random failed at step" in output
    assert "a rule: was broken" in output
    assert "seamark simulate --scenario random --seed 4" in output
    assert "JoinGroup(" in output
    assert simulate("--seed", 4, exit_code=1).output == output
    (line,) = simulate("--seed", 4, "--json", exit_code=1).output.splitlines()
    assert json.loads(line)["failure"] == "a rule: was broken"


def test_the_scenarios_are_listed(simulate):
    output = simulate("--list").output
    assert [line.split()[0] for line in output.splitlines()] == list(SCENARIOS)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["--scenario", "nothing"], "there is no scenario 'nothing'"), (["--count", "0"], "--count must be >= 1")],
)
def test_bad_options_are_refused_with_a_sentence(simulate, arguments, sentence):
    result = simulate(*arguments, exit_code=None)
    assert isinstance(result.exception, UsageError)
    assert sentence in str(result.exception)
