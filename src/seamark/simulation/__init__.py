"""Whole consumer groups in virtual time, from one random seed: the proof of the coordinator, its shell and the storage.

A lifetime runs a broker's group runtime, as it ships, on a simulated network and disk, with faults, and checks its
promises at every step.
In the scenarios of real clients the members are the client as it ships, and what it promises is checked too.
The same seed takes the same course on any machine.
"""

from seamark.simulation.runs.courses import lifetime_of, run_lifetime
from seamark.simulation.runs.lifetime import Lifetime, Outcome
from seamark.simulation.world.scenarios import SCENARIOS, Scenario, scenario_named
from seamark.simulation.world.violations import InvariantViolated, LifetimeFailed

__all__ = [
    "SCENARIOS",
    "InvariantViolated",
    "Lifetime",
    "LifetimeFailed",
    "Outcome",
    "Scenario",
    "lifetime_of",
    "run_lifetime",
    "scenario_named",
]
