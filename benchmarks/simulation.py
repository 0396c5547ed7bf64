"""Group lifetimes per second on one core, each with at least what the claim says, with model and with real clients."""

import itertools
import time
from collections.abc import Callable

from benchmarks.claims import QUICK, compare
from seamark.simulation import run_lifetime

PER_RUN = 30 if QUICK else 150
CLIENTS_PER_RUN = 10 if QUICK else 60
FIRST_SEED = 1_000_000


def measure() -> list[dict[str, object]]:
    return [
        compare("simulation.lifetimes", "lifetimes/s", "higher", _lifetimes("random", PER_RUN), None),
        compare(
            "simulation.lifetimes_real_client", "lifetimes/s", "higher", _lifetimes("clients", CLIENTS_PER_RUN), None
        ),
    ]


def _lifetimes(scenario: str, count: int) -> Callable[[], float]:
    seeds = itertools.count(FIRST_SEED)

    def run() -> float:
        begin = time.perf_counter()
        for seed in itertools.islice(seeds, count):
            outcome = run_lifetime(seed, scenario)
            assert outcome.messages >= 100
            assert outcome.commits >= 20
            assert outcome.rebalances >= 2
            assert outcome.faults >= 2
        return count / (time.perf_counter() - begin)

    return run
