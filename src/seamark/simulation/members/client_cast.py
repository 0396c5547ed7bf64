"""Who takes part in a lifetime of real clients, drawn from the seed: groups, their assignors, members and habits.

All members of a group keep one promise about its records, since what one of them commits the others rely on. Timeouts
are short, so that a lifetime sees many of them pass.
"""

from __future__ import annotations

import random

from seamark.assignors import load_assignors
from seamark.client.core.positions.reset import ResetPolicy
from seamark.client.core.settings import ConsumerSettings, MembershipSettings
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


class Part:
    """What one member is made of."""

    __slots__ = ("habits", "name", "settings", "topics")

    def __init__(self, name: str, settings: ConsumerSettings, habits: ConsumerHabits, topics: tuple[str, ...]) -> None:
        self.name = name
        self.settings = settings
        self.habits = habits
        self.topics = topics


def draw_group(rng: random.Random, scenario: Scenario, group_id: str, promise: Promise) -> list[Part]:
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
        parts.append(
            Part(
                f"{group_id[0]}{number}",
                _draw_settings(rng, group_id, instance_id, strategy, style, promise),
                _draw_habits(rng, style),
                topics,
            )
        )
    return parts


def _draw_style(rng: random.Random, promise: Promise) -> Style:
    if promise is Promise.AT_MOST_ONCE:
        return Style.BEFORE
    return _AT_LEAST_ONCE[int(rng.random() * len(_AT_LEAST_ONCE))]


def _draw_settings(
    rng: random.Random, group_id: str, instance_id: str | None, strategy: list[str], style: Style, promise: Promise
) -> ConsumerSettings:
    # Reading from the end leaves out what came before, which only at-most-once allows.
    policy = "latest" if promise is Promise.AT_MOST_ONCE and rng.random() < 0.3 else "earliest"
    return ConsumerSettings(
        membership=MembershipSettings(
            group_id=group_id,
            instance_id=instance_id,
            session_timeout_ms=2500 + int(rng.random() * 2000),
            heartbeat_interval_ms=900 + int(rng.random() * 700),
            max_poll_interval_ms=4000 + int(rng.random() * 4000),
            request_timeout_ms=2000 + int(rng.random() * 3000),
            auto_commit=style.is_automatic,
        ),
        assignors=load_assignors(strategy),
        reset_policy=ResetPolicy.parse(policy),
        auto_commit_interval_ms=400 + int(rng.random() * 2000),
    )


def _draw_habits(rng: random.Random, style: Style) -> ConsumerHabits:
    return ConsumerHabits(
        style,
        has_pattern=rng.random() < 0.2,
        poll_s=0.5 + rng.random() * 2.5,
        max_records=3 + int(rng.random() * 15),
        work_ms=int(rng.random() ** 2 * 30),
        commit_s=1 + rng.random() * 8,
        close_s=1 + rng.random() * 4,
        metadata_max_age_ms=2000 + int(rng.random() * 4000),
    )
