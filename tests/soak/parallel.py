"""The parallel consumer's full counts: 20,000 lifetimes in virtual time, handler processes that raise and die, and ten
minutes of chaos with Apache Kafka.

Every promise holds in each lifetime; no failure of a process is counted as done; in the chaos a million records are all
processed, and the repeats are printed. ``SEAMARK_SOAK_PART=simulation``, ``processes`` or ``chaos`` runs only that.
"""

import json
import logging
import os
import subprocess
import sys
import time

from seamark.simulation.parallel.lifetime import ParallelLifetime, ParallelLifetimeFailed

SEEDS = 20_000
PROCESSES = 2
PROCESS_RECORDS = 20_000
CHAOS_SECONDS = 600.0
CHAOS_RECORDS = 1_000_000
FIGURES = ("records", "runs", "repeats", "given_up", "commits", "rebalances", "crashes", "process_deaths", "accidents")


def run(scale: float) -> dict[str, object]:
    begin = time.monotonic()
    wanted = os.environ.get("SEAMARK_SOAK_PART", "")
    parts: dict[str, dict[str, object]] = {}
    if wanted in ("", "simulation"):
        parts["simulation"] = simulated(max(PROCESSES, int(SEEDS * scale)))
    if wanted in ("", "processes"):
        from tests.soak.parallel_parts import processes

        parts["processes"] = processes.run(max(200, int(PROCESS_RECORDS * scale)))
    if wanted in ("", "chaos"):
        # Needs Java and Maven, which the lifetimes do not.
        from tests.soak.parallel_parts import chaos

        parts["chaos"] = chaos.run(max(30.0, CHAOS_SECONDS * scale), max(20_000, int(CHAOS_RECORDS * scale)))
    return {
        "ok": bool(parts) and all(part["ok"] is True for part in parts.values()),
        **parts,
        "seconds": round(time.monotonic() - begin, 1),
    }


def simulated(seeds: int) -> dict[str, object]:
    begin = time.monotonic()
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.soak.parallel", str(number), str(seeds)], stdout=subprocess.PIPE, text=True
        )
        for number in range(PROCESSES)
    ]
    reports = []
    for child in children:
        out, _ = child.communicate()
        reports.append(json.loads(out.splitlines()[-1]) if child.returncode == 0 else {})
    totals = {name: sum(report.get(name, 0) for report in reports) for name in ("lifetimes", *FIGURES)}
    failures = [failure for report in reports for failure in report.get("failures", [])]
    return {
        "ok": not failures and totals["lifetimes"] == seeds,
        **totals,
        "failed": len(failures),
        "failures": failures[:20],
        "seconds": round(time.monotonic() - begin, 1),
    }


def lifetimes_of(number: int, seeds: int) -> dict[str, object]:
    totals = dict.fromkeys(("lifetimes", *FIGURES), 0)
    failures = []
    for seed in range(number, seeds, PROCESSES):
        totals["lifetimes"] += 1
        try:
            outcome = ParallelLifetime(seed).run()
        except ParallelLifetimeFailed as failure:
            failures.append({"seed": seed, "reason": failure.reason[:300]})
            continue
        for name in FIGURES:
            totals[name] += getattr(outcome, name)
    return {**totals, "failures": failures}


if __name__ == "__main__":
    # Consumers complain of truncated logs, as they should; what counts is in the outcome.
    logging.getLogger("seamark").addHandler(logging.NullHandler())
    logging.getLogger("seamark").propagate = False
    print(json.dumps(lifetimes_of(int(sys.argv[1]), int(sys.argv[2]))))
