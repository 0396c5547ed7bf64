"""Whole groups under faults: a sample of every scenario, and every seed that ever failed."""

from pathlib import Path

import pytest

from seamark.simulation import SCENARIOS, LifetimeFailed, run_lifetime

CORPUS = [
    (path.stem, int(line.split()[0]))
    for path in sorted((Path(__file__).parent / "corpus").glob("*.txt"))
    for line in path.read_text().splitlines()
    if line.strip()
]


def outcome_of(seed, scenario):
    try:
        return run_lifetime(seed, scenario)
    except LifetimeFailed as failure:
        pytest.fail(f"{failure}\n{failure.transcript}", pytrace=False)


def assert_rich_enough(outcome):
    assert outcome.messages >= 100
    assert outcome.commits >= 20
    assert outcome.rebalances >= 2
    assert outcome.faults >= 2


# D5, D11, D14, D17, D19 to D30, D32 to D34, F1, F4, F7, F8, F10, F11, F13 to F15, F19, F26 to F29, F32
@pytest.mark.parametrize("tens", range(20))
def test_random_lifetimes_keep_every_promise(tens):
    for seed in range(tens * 10, tens * 10 + 10):
        assert_rich_enough(outcome_of(seed, "random"))


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "random"])
def test_lifetimes_of_a_scenario_keep_every_promise(scenario):
    for seed in range(10):
        assert_rich_enough(outcome_of(seed, scenario))


@pytest.mark.parametrize(("scenario", "seed"), CORPUS, ids=str)
def test_a_seed_that_once_failed_holds(scenario, seed):
    assert_rich_enough(outcome_of(seed, scenario))


def test_the_scenarios_reach_what_they_are_for():
    crashes = sum(outcome_of(seed, "crashes").crashes for seed in range(10))
    assert crashes >= 15
    assert outcome_of(3, "moves").log_checks > 4
