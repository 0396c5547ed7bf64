"""What a seed draws for a group of parallel consumers: settings, a log, and how rough the life will be."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TypeVar

from seamark.parallel.settings import (
    Batch,
    Commit,
    DeadLetter,
    Delivery,
    Order,
    Park,
    Retry,
    Settings,
    Skip,
    Stop,
    Then,
)

Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class Case:
    settings: Settings
    is_cooperative: bool
    members: int
    partitions: int
    records: int
    keys: int
    gap_chance: float
    poison_chance: float
    failure_chance: float
    metadata_limit: int
    poll_records: int
    faults: int
    ahead: int
    processes: int
    death_chance: float


def draw_case(rng: Random, apart: Random) -> Case:
    """``apart`` decides about processes, so that seeds without them keep the course they always had."""
    delivery = _one_of(rng, _DELIVERIES)
    then = _draw_then(rng)
    # A poison record under Stop stops every member that comes to it: nothing would ever settle.
    has_poison = not isinstance(then, Stop) and rng.random() < 0.6
    order = _one_of(rng, _ORDERS)
    settings = Settings(
        order=order,
        concurrency=1 + int(rng.random() ** 2 * 12),
        batch=_draw_batch(rng, order),
        delivery=delivery,
        retry=_draw_retry(rng, then),
        then=then,
        commit=Commit(
            interval=rng.choice((0.05, 0.3, 1.0, 4.0)),
            records=rng.choice((None, None, 1, 5)),
            sync=rng.random() < 0.2,
        ),
        buffer_records=rng.choice((3, 10, 40, 250_000)),
        buffer_bytes=rng.choice((2_000, 10_000, 64 << 20)),
        done_ahead=rng.choice((True, True, True, False, 20, 126)),
        drain=rng.choice((0.0, 0.2, 2.0, 8.0)),
    )
    return Case(
        settings,
        is_cooperative=rng.random() < 0.5,
        members=1 + int(rng.random() * 4),
        partitions=1 + int(rng.random() * 4),
        records=int(20 + rng.random() ** 2 * 160),
        keys=1 + int(rng.random() ** 2 * 30),
        gap_chance=rng.choice((0.0, 0.15, 0.5)),
        poison_chance=0.08 if has_poison else 0.0,
        failure_chance=rng.choice((0.0, 0.05, 0.2)),
        metadata_limit=rng.choice((4096, 4096, 200, 40)),
        poll_records=rng.choice((3, 10, 25)),
        faults=2 + int(rng.random() * 9),
        ahead=0 if settings.batch else rng.choice((0, 0, 1, 4)),
        processes=apart.choice((0, 0, 1, 2)),
        death_chance=apart.choice((0.01, 0.05, 0.2)),
    )


_DELIVERIES: tuple[Delivery, ...] = ("at_least_once", "at_least_once", "at_least_once", "at_most_once", "whole_batch")
_ORDERS = (Order.KEY, Order.KEY, Order.PARTITION, Order.NONE)


def _one_of(rng: Random, choices: tuple[Choice, ...]) -> Choice:
    return choices[int(rng.random() * len(choices))]


def _draw_batch(rng: Random, order: Order) -> Batch | None:
    if rng.random() >= 0.35:
        return None
    # Columns know no keys, so they go with the other orders.
    is_columnar = order is not Order.KEY and rng.random() < 0.5
    return Batch(records=2 + int(rng.random() * 6), wait=rng.choice((0.0, 0.05, 0.4)), arrow=is_columnar)


def _draw_then(rng: Random) -> Then:
    chance = rng.random()
    if chance < 0.25:
        return Stop()
    if chance < 0.5:
        return DeadLetter(max_ratio=None if rng.random() < 0.7 else 0.5, window=20)
    if chance < 0.75:
        return Skip(max_ratio=None)
    return Park(records=rng.choice((20, 100)))


def _draw_retry(rng: Random, then: Then) -> Retry:
    attempts = 1 + int(rng.random() * 4)
    # Who stops for a failure should not do so for each of them.
    return Retry(attempts=attempts + (6 if isinstance(then, Stop) else 0), delay=0.05, max_delay=2.0)
