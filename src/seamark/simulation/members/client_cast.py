"""Who takes part in a lifetime of real clients, drawn from the seed: groups, their assignors, members and habits.

All members of a group keep one promise about its records, since what one of them commits the others rely on. Timeouts
are short, so that a lifetime sees many of them pass.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from seamark.client.config.config import ConsumerConfig
from seamark.client.consumer.settings import settings_of
from seamark.client.core.settings import ConsumerSettings
from seamark.simulation.members.applications import Style
from seamark.simulation.members.consumer_member import ConsumerHabits
from seamark.simulation.world.deliveries import Promise
from seamark.simulation.world.scenarios import Scenario

# One line per group: all of its members offer these, so that they have one in common.
STRATEGIES = (
    ("range",),
    ("roundrobin",),
    ("sticky",),
    ("cooperative-sticky",),
    ("cooperative-sticky",),
    ("range", "roundrobin"),
    ("cooperative-sticky", "range"),
)
_AT_LEAST_ONCE = (Style.SYNC, Style.HALVES, Style.ASYNC, Style.AUTO, Style.EACH, Style.EACH_AUTO)


class Part(NamedTuple):
    """What one member is made of. ``options`` are the keys of its configuration, ``settings`` what its core reads."""

    name: str
    options: Mapping[str, Any]
    settings: ConsumerSettings
    habits: ConsumerHabits
    topics: tuple[str, ...]


def draw_group(rng: random.Random, scenario: Scenario, group_id: str, promise: Promise, bootstrap: str) -> list[Part]:
    strategies = [each for each in STRATEGIES if scenario.strategy is None or scenario.strategy in each]
    strategy = list(strategies[int(rng.random() * len(strategies))])
    parts = []
    subscriptions: dict[str, tuple[str, ...]] = {}
    for number in range(2 + int(rng.random() * (scenario.most_members - 1))):
        instance_id = None
        if rng.random() < scenario.static_chance:
            # Now and then two processes are given one identity.
            taken = number if rng.random() < 0.85 else max(number - 1, 0)
            instance_id = f"{group_id}-i{taken}"
        wishes = ("orders", "audit") if rng.random() < 0.75 else ("orders",)
        topics = wishes if instance_id is None else subscriptions.setdefault(instance_id, wishes)
        style = _draw_style(rng, promise)
        if len(strategy) > 1 and rng.random() < 0.5:
            strategy.reverse()
        habits = _draw_habits(rng, style)
        name = f"{group_id[0]}{number}"
        options = _draw_options(rng, group_id, instance_id, strategy, style, promise)
        options |= {"bootstrap.servers": bootstrap, "client.id": name, "max.poll.records": habits.max_records}
        parts.append(Part(name, options, settings_of(ConsumerConfig.from_options(options)), habits, topics))
    return parts


def _draw_style(rng: random.Random, promise: Promise) -> Style:
    if promise is Promise.AT_MOST_ONCE:
        return Style.BEFORE
    return _AT_LEAST_ONCE[int(rng.random() * len(_AT_LEAST_ONCE))]


def _draw_options(
    rng: random.Random, group_id: str, instance_id: str | None, strategy: list[str], style: Style, promise: Promise
) -> dict[str, Any]:
    # Reading from the end leaves out what came before, which only at-most-once allows.
    policy = "latest" if promise is Promise.AT_MOST_ONCE and rng.random() < 0.3 else "earliest"
    return {
        "group.id": group_id,
        "group.instance.id": instance_id,
        "session.timeout.ms": 2500 + int(rng.random() * 2000),
        "heartbeat.interval.ms": 900 + int(rng.random() * 700),
        "max.poll.interval.ms": 4000 + int(rng.random() * 4000),
        "request.timeout.ms": 2000 + int(rng.random() * 3000),
        "enable.auto.commit": style.is_automatic,
        "partition.assignment.strategy": list(strategy),
        "auto.offset.reset": policy,
        "auto.commit.interval.ms": 400 + int(rng.random() * 2000),
        "metadata.max.age.ms": 2000 + int(rng.random() * 4000),
        "socket.connection.setup.timeout.ms": 1000 + int(rng.random() * 3000),
        "default.api.timeout.ms": 5000 + int(rng.random() ** 2 * 55_000),
        "connections.max.idle.ms": 4000 + int(rng.random() * 60_000),
    }


def _draw_habits(rng: random.Random, style: Style) -> ConsumerHabits:
    return ConsumerHabits(
        style,
        has_pattern=rng.random() < 0.2,
        poll_s=0.5 + rng.random() * 2.5,
        max_records=3 + int(rng.random() * 15),
        work_ms=int(rng.random() ** 2 * 30),
        commit_s=1 + rng.random() * 8,
        close_s=1 + rng.random() * 4,
    )
