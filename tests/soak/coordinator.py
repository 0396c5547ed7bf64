"""20,000 random lifetimes and 3,000 of the presets: every promise of the coordinator and its log holds in each.

Seeds are shared out to two processes; a failure is reported with its seed, its reason and how to replay it.
"""

import time

from seamark.simulation import SCENARIOS
from tests.support.shared_lifetimes import run_plan

SEEDS = 20_000
SEEDS_PER_PRESET = 300
FIGURES = ("messages", "commits", "rebalances", "faults", "crashes", "log_checks")


def run(scale: float) -> dict[str, object]:
    begin = time.monotonic()
    presets = [name for name, each in SCENARIOS.items() if name != "random" and not each.has_real_clients]
    plan = [("random", int(SEEDS * scale)), *((name, max(1, int(SEEDS_PER_PRESET * scale))) for name in presets)]
    return {**run_plan(plan, FIGURES), "seconds": round(time.monotonic() - begin, 1)}
