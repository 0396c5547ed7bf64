"""Which lifetimes there are: presets by name, and what each leaves to chance.

A scenario weighs the faults and bounds the cast; everything else, also the settings of broker and members, is drawn
from the seed. ``random`` weighs everything evenly and is what the counts are run with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamark.errors import UsageError

# Every kind of fault at a broker, with its weight in ``random``.
EVERYTHING: Mapping[str, int] = {
    "kill": 2,
    "power_loss": 2,
    "crash_at_write": 3,
    "restart": 1,
    "unload": 3,
    "disconnect": 2,
    "drop": 2,
    "delay": 1,
    "duplicate": 2,
    "slow_disk": 2,
    "disk_full": 2,
    "io_error": 2,
    "small_batches": 2,
    "busy_broker": 2,
    "clock_step": 1,
    "member_crash": 3,
    "member_pause": 2,
    "zombie": 3,
    "churn": 3,
}

# The same around real clients.
EVERYTHING_AROUND_CLIENTS: Mapping[str, int] = {
    "kill": 1,
    "power_loss": 1,
    "crash_at_write": 1,
    "restart": 1,
    "unload": 1,
    "node_crash": 3,
    "coordinator_move": 3,
    "loading": 1,
    "disconnect": 2,
    "drop": 2,
    "delay": 2,
    "torn_frames": 2,
    "refused_connections": 1,
    "slow_disk": 1,
    "disk_full": 1,
    "io_error": 1,
    "member_crash": 3,
    "member_pause": 3,
    "slow_processing": 2,
    "churn": 3,
    "expansion": 1,
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """``faults`` are weights; ``static_chance`` is how likely a member has an instance id."""

    name: str
    about: str
    faults: Mapping[str, int] = field(default_factory=lambda: EVERYTHING)
    least_faults: int = 3
    most_faults: int = 7
    most_members: int = 4
    static_chance: float = 0.3
    durability: str | None = None
    has_administrator: bool = False
    has_simple_consumer: bool = True
    max_group_size: int | None = None
    # Members are the real client, with these limits on what is drawn: a promise of ``deliveries``, an assignor.
    has_real_clients: bool = False
    promise: str | None = None
    strategy: str | None = None


_ALL = (
    Scenario("random", "all faults, a few of each", has_administrator=True),
    Scenario("calm", "members join and leave and connections break, no other faults", {"churn": 3, "disconnect": 2}),
    Scenario(
        "crashes",
        "the broker stops and crashes in every way",
        {"kill": 2, "power_loss": 3, "crash_at_write": 5, "restart": 2},
    ),
    Scenario(
        "commit-durability",
        "crashes of a broker that syncs before every response",
        {"power_loss": 4, "crash_at_write": 4, "slow_disk": 2, "io_error": 1},
        durability="commit",
    ),
    Scenario(
        "static-members",
        "instance ids move to other members",
        {"member_crash": 6, "zombie": 4, "member_pause": 2, "unload": 1, "slow_disk": 1, "disk_full": 1, "churn": 1},
        static_chance=0.9,
    ),
    Scenario(
        "zombies",
        "members of old generations keep committing",
        {"zombie": 6, "member_pause": 3, "churn": 3, "unload": 1},
    ),
    Scenario("moves", "partitions are unloaded and loaded", {"unload": 5, "restart": 2, "slow_disk": 1, "churn": 1}),
    Scenario(
        "bad-disk",
        "full, slow and failing disks",
        {"disk_full": 3, "io_error": 4, "slow_disk": 3, "busy_broker": 2, "unload": 2, "crash_at_write": 1},
    ),
    Scenario(
        "busy-broker",
        "much is written together, in batches that do not hold all of it",
        {"busy_broker": 4, "small_batches": 4, "duplicate": 2, "disk_full": 1, "unload": 1, "churn": 1},
    ),
    Scenario(
        "bad-network",
        "late, lost and repeated messages",
        {"drop": 3, "duplicate": 4, "delay": 2, "disconnect": 2},
    ),
    Scenario("clocks", "the broker's clock is changed", {"clock_step": 4, "churn": 2, "member_crash": 1}),
    Scenario(
        "crowded",
        "more members than the maximum group size",
        {"churn": 4, "member_crash": 2, "unload": 1, "drop": 1},
        max_group_size=2,
    ),
    Scenario(
        "deletions",
        "administrators delete groups and offsets",
        {"churn": 3, "member_crash": 4, "disk_full": 1, "kill": 1, "unload": 1, "slow_disk": 2},
        has_administrator=True,
    ),
    Scenario(
        "clients",
        "real clients, with a few of all faults",
        EVERYTHING_AROUND_CLIENTS,
        most_members=3,
        has_real_clients=True,
    ),
    Scenario(
        "clients-at-least-once",
        "real clients that commit what they have processed, with duplicated requests",
        {**EVERYTHING_AROUND_CLIENTS, "duplicate": 3},
        has_real_clients=True,
        promise="at least once",
    ),
    Scenario(
        "clients-at-most-once",
        "real clients that commit before they process",
        EVERYTHING_AROUND_CLIENTS,
        has_real_clients=True,
        promise="at most once",
    ),
    Scenario(
        "clients-cooperative",
        "real clients that keep partitions through a rebalance",
        {"churn": 5, "member_crash": 3, "member_pause": 3, "slow_processing": 2, "expansion": 2, "disconnect": 1},
        has_real_clients=True,
        strategy="cooperative-sticky",
    ),
    Scenario(
        "clients-static",
        "real clients with instance ids that move to other members",
        {"member_crash": 5, "member_pause": 4, "churn": 2, "coordinator_move": 2, "kill": 1, "drop": 1},
        has_real_clients=True,
        static_chance=0.9,
    ),
    Scenario(
        "clients-moving-coordinators",
        "real clients whose coordinator moves, loads, and loses its node",
        {"coordinator_move": 4, "node_crash": 4, "loading": 2, "restart": 1, "delay": 1, "churn": 1},
        has_real_clients=True,
    ),
    Scenario(
        "clients-bad-network",
        "real clients behind late, lost and broken connections",
        {
            "drop": 4,
            "delay": 3,
            "disconnect": 4,
            "torn_frames": 4,
            "refused_connections": 3,
            "node_crash": 1,
            "churn": 2,
        },
        has_real_clients=True,
    ),
    Scenario(
        "clients-stalls",
        "real clients whose user code or process is paused",
        {"member_pause": 5, "slow_processing": 5, "churn": 2, "coordinator_move": 1, "delay": 1},
        has_real_clients=True,
    ),
)

SCENARIOS: Mapping[str, Scenario] = {scenario.name: scenario for scenario in _ALL}


def scenario_named(name: str) -> Scenario:
    """Return a preset.

    >>> scenario_named("calm").about
    'members join and leave and connections break, no other faults'
    """
    found = SCENARIOS.get(name)
    if found is None:
        raise UsageError(f"there is no scenario {name!r}; choose one of {', '.join(SCENARIOS)}")
    return found
