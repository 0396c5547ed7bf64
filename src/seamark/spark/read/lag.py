"""What waits to be read: how much of it goes into the next batch, and how far behind the query is after that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seamark.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]


def waiting(begin: Offsets, heads: Offsets) -> dict[TopicPartition, int]:
    """How many offsets each partition has to read; those with none are left out."""
    sizes = {partition: head - begin[partition] for partition, head in heads.items() if partition in begin}
    return {partition: size for partition, size in sizes.items() if size > 0}


def at_most(limit: int | None, begin: Offsets, heads: Offsets) -> dict[TopicPartition, int]:
    """Where the next batch ends in each partition that has something to read.

    The limit is shared among the partitions in proportion to what each has waiting, at least one offset for each, so
    that a small partition is never starved by a large one (Spark's source does the same, so the limit may be passed by
    as many offsets as there are partitions).
    """
    sizes = waiting(begin, heads)
    total = sum(sizes.values())
    if limit is None or total <= limit:
        return {partition: begin[partition] + size for partition, size in sizes.items()}
    return {partition: begin[partition] + max(1, limit * size // total) for partition, size in sizes.items()}


class Patience:
    """Whether a batch should wait for more: fewer than ``minimum`` offsets, and not yet for ``delay_ms``.

    The first batch of a run does not wait. Times are those of a monotonic clock.
    """

    def __init__(self, minimum: int | None, delay_ms: int) -> None:
        self._minimum = minimum
        self._delay_ms = delay_ms
        self._last_ms: int | None = None

    def has_worn_out(self, count: int, now_ms: int) -> bool:
        """Whether ``count`` offsets are enough by now; the wait starts anew when they are."""
        is_enough = (
            self._minimum is None
            or count >= self._minimum
            or self._last_ms is None
            or now_ms - self._last_ms >= self._delay_ms
        )
        if is_enough:
            self._last_ms = now_ms
        return is_enough


@dataclass(frozen=True, slots=True)
class Lag:
    """How far behind a query is, after the batch that is about to run.

    It rides in Spark's progress (``sources[].latestOffset``) under the key ``seamark``, from where the listener makes
    log lines and metrics of it. ``ms`` is None when there are waiting records and nobody could tell their age.
    """

    records: Mapping[TopicPartition, int] = field(default_factory=dict)
    ms: int | None = 0

    @property
    def total(self) -> int:
        return sum(self.records.values())

    def document(self) -> dict[str, Any]:
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, index), count in sorted(self.records.items()):
            by_topic.setdefault(topic, {})[str(index)] = count
        return {"lag_ms": self.ms, "lag_records": self.total, "partitions": by_topic}


def records_behind(positions: Offsets, heads: Offsets) -> dict[TopicPartition, int]:
    """Per partition of the query how many offsets lie between its position and the end of the log."""
    return {partition: max(0, heads.get(partition, offset) - offset) for partition, offset in positions.items()}


def oldest_age_ms(times_ms: Mapping[TopicPartition, int], now_ms: int) -> int | None:
    """The age of the oldest waiting record; clocks may differ, so it is never negative."""
    return max((max(0, now_ms - time) for time in times_ms.values()), default=None)
