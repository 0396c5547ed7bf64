"""20,000 lifetimes of groups of real clients: every record at least once, or at most once, whatever goes wrong.

Seeds of all client scenarios are shared out to two processes. ``simulated`` is for the soak of the client, which raises
at a violation; ``make soak NAME=client_simulated`` runs it alone.
"""

import json
import subprocess
import sys
import time

from seamark.simulation import SCENARIOS, LifetimeFailed, run_lifetime

SEEDS = 20_000
PROCESSES = 2
# Half of all seeds go to the scenario with everything in it, the rest to the others in equal parts.
EVERYTHING = "clients"
FIGURES = ("lifetimes", "messages", "commits", "rebalances", "faults", "crashes", "processed", "repeated")


class PromiseBroken(AssertionError):
    """At least one lifetime failed; the text has scenarios, seeds and reasons."""


def plan_for(seeds: int) -> list[tuple[str, int]]:
    others = [name for name, each in SCENARIOS.items() if each.has_real_clients and name != EVERYTHING]
    share = seeds // 2 // len(others)
    return [(EVERYTHING, seeds - share * len(others)), *((name, share) for name in others)]


def simulated(scale: float) -> dict[str, object]:
    """Run the seeds and return the figures; raise PromiseBroken at a violation."""
    begin = time.monotonic()
    plan = plan_for(max(2, int(SEEDS * scale)))
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.soak.client_simulated", str(number), json.dumps(plan)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    reports = []
    for child in children:
        out, _ = child.communicate()
        if child.returncode != 0:
            raise PromiseBroken(f"a process of the simulation ended with {child.returncode}")
        reports.append(json.loads(out.splitlines()[-1]))
    failures = [failure for report in reports for failure in report["failures"]]
    if failures:
        raise PromiseBroken(f"{len(failures)} lifetimes failed: {failures[:10]}")
    totals: dict[str, object] = {name: sum(report[name] for report in reports) for name in FIGURES}
    return {**totals, "violations": 0, "seconds": round(time.monotonic() - begin, 1)}


def run(scale: float) -> dict[str, object]:
    try:
        return {"ok": True, **simulated(scale)}
    except PromiseBroken as broken:
        return {"ok": False, "reason": str(broken)}


def share(number: int, plan: list[tuple[str, int]]) -> dict[str, object]:
    totals = dict.fromkeys(FIGURES, 0)
    failures = []
    for scenario, count in plan:
        for seed in range(number, count, PROCESSES):
            totals["lifetimes"] += 1
            try:
                outcome = run_lifetime(seed, scenario)
            except LifetimeFailed as failure:
                failures.append({"scenario": scenario, "seed": seed, "reason": failure.reason[:300]})
                continue
            for name in FIGURES[1:]:
                totals[name] += getattr(outcome, name)
    return {**totals, "failures": failures}


if __name__ == "__main__":
    print(json.dumps(share(int(sys.argv[1]), json.loads(sys.argv[2]))))
