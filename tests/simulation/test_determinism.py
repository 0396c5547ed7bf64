"""One seed takes one course: twice in a process, and in processes whose hashes differ."""

import os
import subprocess
import sys

import pytest

from seamark.simulation import Lifetime, scenario_named

PROGRAM = """
import sys
from seamark.simulation import lifetime_of, scenario_named
for scenario in ("random", "deletions", "bad-disk", "clients", "clients-bad-network"):
    for seed in range(8):
        lifetime = lifetime_of(seed, scenario_named(scenario))
        lifetime.run()
        print(lifetime.transcript.digest())
from seamark.simulation.parallel.lifetime import ParallelLifetime
for seed in range(12):
    lifetime = ParallelLifetime(seed)
    lifetime.run()
    print(lifetime.transcript.digest())
"""


def digests_with(hash_seed):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    return result.stdout.split()


def test_a_seed_takes_the_same_course_under_any_hash_seed():
    first = digests_with("1")
    assert len(set(first)) == 52
    assert digests_with("2") == first


@pytest.mark.parametrize("seed", [0, 7])
def test_a_seed_takes_the_same_course_twice(seed):
    courses = []
    for _ in range(2):
        lifetime = Lifetime(seed, scenario_named("random"))
        outcome = lifetime.run()
        courses.append((outcome, lifetime.transcript.text()))
    assert courses[0] == courses[1]


def test_the_course_does_not_depend_on_what_ran_before():
    alone = Lifetime(5, scenario_named("random"))
    alone.run()
    Lifetime(6, scenario_named("zombies")).run()
    again = Lifetime(5, scenario_named("random"))
    again.run()
    assert alone.transcript.digest() == again.transcript.digest()
