"""Lifetimes by plan, shared out to two processes: what the soaks of the simulation have in common.

A plan is a list of scenarios with the number of their seeds. A process that ends early leaves lifetimes out, which the
total shows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from seamark.simulation import LifetimeFailed, run_lifetime

PROCESSES = 2
# What a lifetime must have had some of to count.
LEAST = ("messages", "commits", "rebalances", "faults")

Plan = Sequence[tuple[str, int]]


def run_plan(plan: Plan, figures: Sequence[str]) -> dict[str, Any]:
    """Sums of an outcome's ``figures``, the least of those that a lifetime is made of, and every failure."""
    command = [sys.executable, "-m", "tests.support.shared_lifetimes", json.dumps(plan), json.dumps(figures)]
    children = [
        subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True) for number in range(PROCESSES)
    ]
    reports = []
    for child in children:
        out, _ = child.communicate()
        reports.append(json.loads(out.splitlines()[-1]) if child.returncode == 0 else {"exit": child.returncode})
    failures = [failure for report in reports for failure in report.get("failures", [])]
    totals = {name: sum(report.get(name, 0) for report in reports) for name in ("lifetimes", *figures)}
    return {
        "ok": not failures and totals["lifetimes"] == sum(count for _, count in plan),
        **totals,
        "least": {name: min(report.get("least", {}).get(name, 0) for report in reports) for name in LEAST},
        "failures": failures[:20],
        "failed": len(failures),
    }


def run_share(plan: Plan, figures: Sequence[str], number: int) -> dict[str, Any]:
    """One process' part of a plan."""
    totals = dict.fromkeys(("lifetimes", *figures), 0)
    least: dict[str, int] = {}
    failures = []
    for scenario, count in plan:
        for seed in range(number, count, PROCESSES):
            totals["lifetimes"] += 1
            try:
                outcome = run_lifetime(seed, scenario)
            except LifetimeFailed as failure:
                failures.append({"scenario": scenario, "seed": seed, "reason": failure.reason[:300]})
                continue
            for name in figures:
                totals[name] += getattr(outcome, name)
            for name in LEAST:
                least[name] = min(least.get(name, 1 << 30), getattr(outcome, name))
    return {**totals, "least": least, "failures": failures}


if __name__ == "__main__":
    print(json.dumps(run_share(json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]))))
