"""The broker's full counts: what it acknowledged survives ``kill -9`` and loss of power, hostile clients harm nobody,
and clients find their way through a minute of chaos.

The parts are in ``tests/soak/broker_parts``; ``make test`` runs a sample of each. The hour in
virtual time is the simulation's: lifetimes with every fault, and lifetimes in which crashes lose what was not synced.
"""

import time

from seamark.simulation import LifetimeFailed, run_lifetime
from tests.soak.broker_parts import chaos, hostile, kills, power

KILLS = 100
POWER_LOSSES = 100
HOSTILE_FRAMES = 1_000_000
CHAOS_SECONDS = 60
VIRTUAL_MS = 3_600_000


def run(scale: float) -> dict[str, object]:
    begin = time.monotonic()
    parts = {
        "kills": kills.run(max(1, int(KILLS * scale))),
        "power": power.run(max(1, int(POWER_LOSSES * scale))),
        "simulation": simulated(int(VIRTUAL_MS * scale)),
        "chaos": chaos.run(max(5.0, CHAOS_SECONDS * scale)),
        "hostile": hostile.run(max(1000, int(HOSTILE_FRAMES * scale))),
    }
    return {
        "ok": all(part["ok"] is True for part in parts.values()),
        **parts,
        "seconds": round(time.monotonic() - begin, 1),
    }


def simulated(virtual_ms: int) -> dict[str, object]:
    """Virtual time in which the broker's cores live through everything, half of it with syncs that count."""
    lived_ms = {"random": 0, "commit-durability": 0}
    lifetimes = crashes = commits = 0
    failures = []
    while sum(lived_ms.values()) < virtual_ms:
        scenario = min(lived_ms, key=lived_ms.__getitem__)
        try:
            outcome = run_lifetime(1_000_000 + lifetimes, scenario)
        except LifetimeFailed as failure:
            failures.append(f"{scenario} seed {1_000_000 + lifetimes}: {failure.reason[:300]}")
            break
        finally:
            lifetimes += 1
        lived_ms[scenario] += outcome.virtual_ms
        crashes += outcome.crashes
        commits += outcome.commits
    return {
        "ok": not failures,
        "virtual_ms": sum(lived_ms.values()),
        "lifetimes": lifetimes,
        "crashes": crashes,
        "commits": commits,
        "failures": failures,
    }
