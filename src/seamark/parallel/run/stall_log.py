"""The stall watch's voice: a record that holds its partition back is named in the log, once, and so is its end."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from seamark.parallel.core.engine import Engine
from seamark.parallel.core.stall import Stall
from seamark.parallel.observe.status import StallStatus
from seamark.parallel.pools.pool import Pool
from seamark.readable_log import readable_logger
from seamark.topic_partition import TopicPartition

_log = readable_logger("seamark.parallel")

_LOOK_S = 1.0
_SHORTEST_LOOK_S = 0.05


def with_places(stalls: Iterable[Stall], engine: Engine, pool: Pool) -> list[StallStatus]:
    """Each with the place where the record's handler stands."""
    frontiers = engine.committer.frontiers()
    found = []
    for stall in stalls:
        frontier = frontiers.get(stall.partition)
        work = frontier.item(stall.offset) if frontier is not None else None
        found.append(StallStatus(stall, pool.stands_at(work) if work is not None else None))
    return found


class _Told(NamedTuple):
    term: int
    offset: int
    since: float


class StallLog:
    """A warning when a record has held its partition back for the stall limit, a line when the partition moves on."""

    def __init__(self, engine: Engine, pool: Pool) -> None:
        self._engine = engine
        self._pool = pool
        self._after = engine.settings.stall_after
        self._next_look = -math.inf
        self._told: dict[TopicPartition, _Told] = {}
        engine.stall_watch.has_begun = lambda work: pool.stands_at(work) is not None

    def look(self, now: float) -> None:
        if now < self._next_look:
            return
        # Also without a limit: it is by looking that the watch learns when frontiers move.
        self._next_look = now + min(_LOOK_S, max(self._after / 4, _SHORTEST_LOOK_S))
        stalls = {stall.partition: stall for stall in self._engine.stalls(now)}
        terms = self._engine.stays.terms()
        for partition, told in list(self._told.items()):
            stall = stalls.get(partition)
            if stall is None or (terms.get(partition), stall.offset) != told[:2]:
                del self._told[partition]
                self._say_over(partition, told, now, is_ours=partition in terms)
        news = [stall for stall in stalls.values() if stall.partition not in self._told]
        for status in with_places(news, self._engine, self._pool):
            stall = status.stall
            self._told[stall.partition] = _Told(terms[stall.partition], stall.offset, now - stall.age)
            _log.warning("%s", status)

    def _say_over(self, partition: TopicPartition, told: _Told, now: float, *, is_ours: bool) -> None:
        how = "moves on" if is_ours else "is no longer assigned to this consumer"
        _log.info("%s %s: offset %d held it back for %.1f s", partition, how, told.offset, now - told.since)
