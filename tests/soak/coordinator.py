"""20,000 random lifetimes and 3,000 of the presets: every promise of the coordinator and its log holds in each.

Seeds are shared out to two processes; a failure is reported with its seed, its reason and how to replay it.
"""

import json
import subprocess
import sys
import time

from seamark.simulation import SCENARIOS, LifetimeFailed, run_lifetime

SEEDS = 20_000
SEEDS_PER_PRESET = 300
PROCESSES = 2


def run(scale: float) -> dict[str, object]:
    begin = time.monotonic()
    plan = [("random", int(SEEDS * scale))]
    presets = [name for name, each in SCENARIOS.items() if name != "random" and not each.has_real_clients]
    plan += [(name, max(1, int(SEEDS_PER_PRESET * scale))) for name in presets]
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.soak.coordinator", str(number), json.dumps(plan)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    reports = []
    for child in children:
        out, _ = child.communicate()
        reports.append(json.loads(out.splitlines()[-1]) if child.returncode == 0 else {"exit": child.returncode})
    failures = [failure for report in reports for failure in report.get("failures", [])]
    figures = ("lifetimes", "messages", "commits", "rebalances", "faults", "crashes", "log_checks")
    totals = {name: sum(report.get(name, 0) for report in reports) for name in figures}
    return {
        "ok": not failures and totals["lifetimes"] == sum(count for _, count in plan),
        **totals,
        "least": {
            name: min(report.get("least", {}).get(name, 0) for report in reports)
            for name in ("messages", "commits", "rebalances", "faults")
        },
        "failures": failures[:20],
        "failed": len(failures),
        "seconds": round(time.monotonic() - begin, 1),
    }


def child(number: int, plan: list[tuple[str, int]]) -> dict[str, object]:
    totals = dict.fromkeys(("lifetimes", "messages", "commits", "rebalances", "faults", "crashes", "log_checks"), 0)
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
            for name in totals:
                if name != "lifetimes":
                    totals[name] += getattr(outcome, name)
            for name in ("messages", "commits", "rebalances", "faults"):
                least[name] = min(least.get(name, 1 << 30), getattr(outcome, name))
    return {**totals, "least": least, "failures": failures}


if __name__ == "__main__":
    print(json.dumps(child(int(sys.argv[1]), json.loads(sys.argv[2]))))
