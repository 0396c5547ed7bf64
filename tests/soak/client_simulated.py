"""20,000 lifetimes of groups of real clients: every record at least once, or at most once, whatever goes wrong.

Seeds of all client scenarios are shared out to two processes. ``simulated`` is for the soak of the client, which raises
at a violation; ``make soak NAME=client_simulated`` runs it alone.
"""

import time

from seamark.simulation import SCENARIOS
from tests.support.shared_lifetimes import run_plan

SEEDS = 20_000
# Half of all seeds go to the scenario with everything in it, the rest to the others in equal parts.
EVERYTHING = "clients"
FIGURES = ("messages", "commits", "rebalances", "faults", "crashes", "processed", "repeated")


class PromiseBroken(AssertionError):
    """At least one lifetime failed; the text has scenarios, seeds and reasons."""


def plan_for(seeds: int) -> list[tuple[str, int]]:
    others = [name for name, each in SCENARIOS.items() if each.has_real_clients and name != EVERYTHING]
    share = seeds // 2 // len(others)
    return [(EVERYTHING, seeds - share * len(others)), *((name, share) for name in others)]


def simulated(scale: float) -> dict[str, object]:
    """Run the seeds and return the figures; raise PromiseBroken at a violation."""
    begin = time.monotonic()
    found = run_plan(plan_for(max(2, int(SEEDS * scale))), FIGURES)
    if not found.pop("ok"):
        raise PromiseBroken(f"{found['failed']} of {found['lifetimes']} lifetimes failed: {found['failures'][:10]}")
    return {**found, "violations": 0, "seconds": round(time.monotonic() - begin, 1)}


def run(scale: float) -> dict[str, object]:
    try:
        return {"ok": True, **simulated(scale)}
    except PromiseBroken as broken:
        return {"ok": False, "reason": str(broken)}
