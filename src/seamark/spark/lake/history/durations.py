"""How long a rebalance took, where the sampler happened to see it.

Kafka's record of a generation is written when the rebalance is over and says nothing about its beginning. A look that
found the group rebalancing, after its last record and before this one, gives a duration that is too short by at most
the time between two looks; without such a look nothing is said.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_REBALANCING = ["PreparingRebalance", "CompletingRebalance"]
# A group whose last record is not known may have been looked at long before; a rebalance does not take longer.
_LONGEST_MS = 3_600_000


class RebalancesSeen:
    """Times of looks that found a group rebalancing, from files of ``group_states``."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._looks: dict[str, list[int]] = {}
        self._last: dict[str, int] = {}
        for path in paths:
            columns = pq.ParquetFile(path).read(columns=["time", "group", "state"])
            seen = columns.filter(pc.is_in(columns["state"], pa.array(_REBALANCING)))
            for group, at in zip(seen["group"].to_pylist(), seen["time"].cast(pa.int64()).to_pylist(), strict=True):
                self._looks.setdefault(group, []).append(at)
        for looks in self._looks.values():
            looks.sort()

    def add_durations(self, generations: pa.Table, times_ms: Any) -> pa.Table:
        """Rows of ``generations`` with their duration where a look saw the rebalance; call it in the order of time."""
        if not self._looks:
            return generations
        durations = [
            self._duration(group, int(at)) for group, at in zip(generations["group"].to_pylist(), times_ms, strict=True)
        ]
        place = generations.schema.get_field_index("duration_ms")
        return generations.set_column(place, generations.schema.field(place), pa.array(durations, pa.int64()))

    def _duration(self, group: str, at: int) -> int | None:
        looks = self._looks.get(group)
        if looks is None:
            return None
        since = self._last.get(group, at - _LONGEST_MS)
        self._last[group] = max(at, since)
        first = bisect_right(looks, since)
        return at - looks[first] if first < bisect_left(looks, at) else None
