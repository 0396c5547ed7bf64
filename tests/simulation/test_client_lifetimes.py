"""Groups of real clients under faults: a sample, and that it contains what it is meant to contain."""

import pytest

from seamark.client.core.effects import ListenerCall
from seamark.simulation import SCENARIOS, LifetimeFailed, lifetime_of, run_lifetime, scenario_named
from seamark.simulation.members.applications import Style
from seamark.simulation.world.deliveries import Promise

CLIENT_SCENARIOS = [name for name, each in SCENARIOS.items() if each.has_real_clients]

# Those that a small sample cannot miss.
COMMON_FAULTS = {
    "churn",
    "coordinator_move",
    "delay",
    "disconnect",
    "drop",
    "expansion",
    "member_crash",
    "member_pause",
    "node_crash",
    "refused_connections",
    "slow_processing",
    "torn_frames",
}


def lived(seed, scenario):
    lifetime = lifetime_of(seed, scenario_named(scenario))
    try:
        lifetime.run()
    except LifetimeFailed as failure:
        pytest.fail(f"{failure}\n{failure.transcript}", pytrace=False)
    return lifetime


# covers: B1, B7, B8, B9, B10, B11, C12, C13, C16, C17, C20, C24, C26, C30, C31, C32, F20, F21, F22, F23, F24, I1, I2
@pytest.mark.parametrize("tens", range(4))
def test_random_lifetimes_of_real_clients_keep_every_promise(tens):
    for seed in range(100 + tens * 10, 110 + tens * 10):
        outcome = lived(seed, "clients").outcome
        assert outcome.messages >= 100
        assert outcome.commits >= 20
        assert outcome.rebalances >= 2
        assert outcome.faults >= 2


# covers: I2, I3, E1, E2, C30
def test_the_lifetimes_of_clients_are_of_every_kind():
    styles, strategies, promises, faults, listeners = set(), set(), set(), set(), set()
    repeated = static = 0
    for scenario in CLIENT_SCENARIOS:
        for seed in range(200, 205):
            lifetime = lived(seed, scenario)
            for member in lifetime.members:
                styles.add(member.habits.style)
                strategies.update(assignor.name for assignor in member.settings.assignors)
                static += member.instance_id is not None
            promises.update(lifetime.deliveries.promises.values())
            repeated += lifetime.outcome.repeated
            for event in lifetime.transcript.events:
                if event[1] == "fault":
                    faults.add(event[2])
                if event[1] == "says" and event[3] in ("revoked", "lost", "assigned"):
                    listeners.add(event[3])
    assert styles == set(Style)
    assert strategies == {"range", "roundrobin", "sticky", "cooperative-sticky"}
    assert promises == set(Promise)
    assert listeners == {call.name.lower() for call in ListenerCall}
    assert static > 10
    # At least once is not exactly once: what is processed again shows that crashes came between work and commit.
    assert repeated > 0
    assert faults >= COMMON_FAULTS


def test_at_most_once_never_repeats():
    for seed in range(8):
        assert lived(seed, "clients-at-most-once").outcome.repeated == 0


def test_a_lifetime_of_clients_that_never_waits_is_ended(monkeypatch):
    from seamark.client.core.membership.heartbeats import HeartbeatTiming

    monkeypatch.setattr(HeartbeatTiming, "is_due", lambda self, now_ms: False)
    with pytest.raises(LifetimeFailed, match="time moves forward"):
        run_lifetime(0, "clients")
