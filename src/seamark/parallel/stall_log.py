"""The stall watch's voice: a record that holds its partition back is named in the log, once per stall limit."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from seamark.parallel.engine import Engine
from seamark.parallel.pools import Pool
from seamark.parallel.stall import Stall
from seamark.parallel.status import StallStatus
from seamark.topic_partition import TopicPartition

_log = logging.getLogger("seamark.parallel")

_LOOK_S = 1.0


def with_places(stalls: Iterable[Stall], engine: Engine, pool: Pool) -> list[StallStatus]:
    """Each with the place where the record's handler stands."""
    frontiers = engine.committer.frontiers()
    found = []
    for stall in stalls:
        frontier = frontiers.get(stall.partition)
        work = frontier.item(stall.offset) if frontier is not None else None
        found.append(StallStatus(stall, pool.stands_at(work) if work is not None else None))
    return found


class StallLog:
    def __init__(self, engine: Engine, pool: Pool) -> None:
        self._engine = engine
        self._pool = pool
        self._after = engine.settings.stall_after
        self._next_look = -math.inf
        self._told: dict[tuple[TopicPartition, int], float] = {}

    def look(self, now: float) -> None:
        if now < self._next_look or math.isinf(self._after):
            return
        self._next_look = now + min(_LOOK_S, max(self._after, 0.05))
        stalls = self._engine.stalls(now)
        self._told = {
            place: told
            for place, told in self._told.items()
            if any((stall.partition, stall.offset) == place for stall in stalls)
        }
        news = [
            stall for stall in stalls if now - self._told.get((stall.partition, stall.offset), -math.inf) >= self._after
        ]
        for told in with_places(news, self._engine, self._pool):
            self._told[told.stall.partition, told.stall.offset] = now
            _log.warning("%s", told)
