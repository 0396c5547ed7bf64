"""A sample of ``make soak NAME=hostile``: eight hostile processes for a few seconds, and clients beside them."""

from __future__ import annotations

from benchmarks.hostile_parts.world import TINY
from tests.soak import hostile


def test_what_is_acknowledged_beside_hostile_clients_is_there_also_after_a_restart():
    outcome = hostile.attack(2.0, TINY, settling=0.5, strength=hostile.SLIGHT)
    # That each attack did what it is for is among the failures: one that does not happen would prove nothing.
    assert outcome.failures() == []
    assert outcome.books.commits > 0
    assert outcome.attacked.produces_s
