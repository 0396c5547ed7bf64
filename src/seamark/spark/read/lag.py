"""How far behind a query is: records waiting, and the age of the oldest of them.

The numbers ride in Spark's progress (``sources[].latestOffset``) under the key ``seamark``, from where the listener
makes log lines and metrics of them. They describe the state after the batch that is about to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seamark.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Lag:
    """``ms`` is None when there are waiting records and nobody could tell their age."""

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


def records_behind(
    positions: Mapping[TopicPartition, int], heads: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Per partition of the query how many offsets lie between its position and the end of the log."""
    return {partition: max(0, heads.get(partition, offset) - offset) for partition, offset in positions.items()}


def oldest_age_ms(times_ms: Mapping[TopicPartition, int], now_ms: int) -> int | None:
    """The age of the oldest waiting record; clocks may differ, so it is never negative."""
    return max((max(0, now_ms - time) for time in times_ms.values()), default=None)
