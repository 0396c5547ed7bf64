"""Which lifetime belongs to a scenario: one of model clients, or one of real ones.

Models show a coordinator what no real client would do: zombies, administrators, members that skip every rule. Real
clients show whether both sides together keep what users are promised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.simulation.runs.lifetime import Lifetime, Outcome
from seamark.simulation.world.scenarios import Scenario, scenario_named

if TYPE_CHECKING:
    from seamark.simulation.runs.client_lifetime import ClientLifetime


def lifetime_of(seed: int, scenario: Scenario) -> Lifetime | ClientLifetime:
    """A lifetime that has not begun."""
    if not scenario.has_real_clients:
        return Lifetime(seed, scenario)
    # The client is loaded only where it is wanted: with it comes all of its network code.
    from seamark.simulation.runs.client_lifetime import ClientLifetime

    return ClientLifetime(seed, scenario)


def run_lifetime(seed: int, scenario: str = "random") -> Outcome:
    """Run one lifetime; the same seed and scenario give the same course anywhere.

    >>> run_lifetime(1).messages >= 100
    True
    """
    return lifetime_of(seed, scenario_named(scenario)).run()
