"""A sample of ``make soak NAME=broker``: kills, loss of power and hostile clients, each for a few seconds."""

from __future__ import annotations

from tests.soak.broker_parts import hostile, kills, power


def test_what_was_acknowledged_survives_kill_9_under_load():
    told = kills.run(3)
    assert told["ok"], told


def test_what_was_acknowledged_after_a_sync_survives_a_loss_of_power():
    told = power.run(4)
    assert told["ok"], told
    assert told["with_unsynced_bytes"] == 4


def test_a_loss_of_power_takes_what_was_acknowledged_before_its_sync():
    # The promise of durability=os ends at the operating system; that the loss shows proves that it is looked for.
    assert power.run(4, durability="os")["lost"]


def test_hostile_frames_harm_nobody_else():
    told = hostile.run(6_000)
    assert told["ok"], told
    assert told["outcomes"]["answered"] > 100
    assert told["outcomes"]["closed"] > 100
