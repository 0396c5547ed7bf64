"""A sample of ``make soak NAME=hostile``: eight hostile processes for a few seconds, and a client beside them."""

from __future__ import annotations

from benchmarks.hostile_parts.world import TINY
from tests.soak import hostile


def test_what_is_acknowledged_beside_hostile_clients_is_there_also_after_a_restart():
    told = hostile.attack(4.0, TINY, settling=0.5)
    assert told["failures"] == []
    assert told["commits_checked"] > 0
    assert set(told["attackers"]) == {"worst", "half", "churn", "slow", "logins", "bombs", "metadata", "hoard"}
    # Each has done something: an attack that does not happen would prove nothing.
    assert all(told["attackers"].values()), told["attackers"]
