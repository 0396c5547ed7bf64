"""Group lifetimes with model clients on one core, each of at least 100 messages, 20 commits, 2 rebalances, 2 faults."""

import itertools
import time

from benchmarks.claims import compare
from seamark.simulation import run_lifetime

PER_RUN = 150


def measure() -> list[dict[str, object]]:
    seeds = itertools.count(1_000_000)

    def lifetimes() -> float:
        begin = time.perf_counter()
        for seed in itertools.islice(seeds, PER_RUN):
            outcome = run_lifetime(seed)
            assert outcome.messages >= 100
            assert outcome.commits >= 20
            assert outcome.rebalances >= 2
            assert outcome.faults >= 2
        return PER_RUN / (time.perf_counter() - begin)

    return [compare("simulation.lifetimes", "lifetimes/s", "higher", lifetimes, None)]
