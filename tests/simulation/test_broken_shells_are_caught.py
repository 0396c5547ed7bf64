"""What ships is simulated: a bug planted in the client's shell does not live through some lifetimes of real clients."""

import pytest

from seamark.simulation import LifetimeFailed, run_lifetime
from tests.support.planted import plant
from tools.mutants.client_shell import SHELL_BUGS


@pytest.fixture(scope="module", autouse=True)
def _everything_is_loaded():
    run_lifetime(0, "clients")


@pytest.mark.parametrize("bug", SHELL_BUGS, ids=lambda bug: bug.why)
def test_a_bug_in_the_shell_is_caught(monkeypatch, bug):
    plant(monkeypatch, bug.edits)

    def run_some():
        for seed in range(60):
            run_lifetime(seed, bug.scenario)

    with pytest.raises(LifetimeFailed) as caught:
        run_some()
    assert caught.value.transcript


@pytest.mark.parametrize("scenario", ["clients", "clients-bad-network"])
def test_the_seeds_hold_without_a_bug(scenario):
    for seed in range(3):
        run_lifetime(seed, scenario)
