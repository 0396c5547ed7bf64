"""Lag per group and topic, or per partition: records, time with its error, and what is wrong beside it.

The time of a topic is that of its partition furthest behind: an average would hide the one that stands still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from seamark.client.admin import Admin
from seamark.monitor.scan import GroupView, PartitionView, Scan
from seamark.rules.lag import Basis
from seamark.rules.time_lag import TimeLag
from seamark.rules.time_probe import ages_at
from seamark.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class LagRow:
    """``partition`` is None in a row for a whole topic; ``records`` None where nothing answered."""

    group: str
    topic: str
    partition: int | None
    partitions: int
    records: int | None
    time: TimeLag | None
    remark: str = ""


def group_ages(
    admin: Admin, scan: Scan, now_ms: int, *, reset: str = "earliest", timeout: float | None = None
) -> dict[tuple[str, TopicPartition], TimeLag]:
    """The time lag of every partition of every group, with a bounded number of questions."""
    standing: dict[tuple[str, TopicPartition], int] = {}
    places: dict[TopicPartition, tuple[set[int], int]] = {}
    for view in scan.groups:
        for each in view.partitions:
            position = position_of(each, reset)
            if position is not None and each.bounds.log_end is not None:
                standing[view.group_id, each.partition] = position
                places.setdefault(each.partition, (set(), each.bounds.log_end))[0].add(position)
    found = ages_at(places, now_ms, lambda asked: admin.list_offsets(asked, timeout=timeout))
    return {
        (group, partition): found[partition][position]
        for (group, partition), position in standing.items()
        if partition in found
    }


def position_of(view: PartitionView, reset: str) -> int | None:
    """Where the group would go on reading; None if the partition does not answer."""
    bounds = view.bounds
    if bounds.log_start is None or bounds.log_end is None:
        return None
    if view.committed is None:
        return bounds.log_start if reset == "earliest" else bounds.log_end
    return min(max(view.committed.offset, bounds.log_start), bounds.log_end)


def lag_rows(
    scan: Scan, times: Mapping[tuple[str, TopicPartition], TimeLag], *, by_partition: bool = False
) -> list[LagRow]:
    """One row per group and topic, or per partition."""
    rows: list[LagRow] = []
    for view in scan.groups:
        for topic, partitions in groupby(view.partitions, key=lambda each: each.partition.topic):
            each_row = [_partition_row(view, each, times) for each in partitions]
            rows.extend(each_row if by_partition else [_topic_row(view.group_id, topic, each_row)])
    return rows


def _partition_row(view: GroupView, each: PartitionView, times: Mapping[tuple[str, TopicPartition], TimeLag]) -> LagRow:
    time = times.get((view.group_id, each.partition))
    return LagRow(
        view.group_id, each.partition.topic, each.partition.partition, 1, each.lag.records, time, remark_of(each)
    )


def remark_of(view: PartitionView) -> str:
    """What a number alone would hide."""
    lag = view.lag
    if lag.basis is Basis.UNKNOWN:
        return f"does not answer: {view.bounds.error}"
    if lag.basis is Basis.RESET:
        return "nothing committed"
    if lag.basis is Basis.BEYOND:
        return f"committed {lag.beyond} beyond the log's end"
    return f"{lag.lost} deleted before they were read" if lag.lost else ""


def _topic_row(group: str, topic: str, rows: Sequence[LagRow]) -> LagRow:
    known = [row.records for row in rows if row.records is not None]
    remarks = [f"partition {row.partition}: {row.remark}" for row in rows if row.remark]
    more = f" (and {len(remarks) - 1} more)" if len(remarks) > 1 else ""
    return LagRow(
        group,
        topic,
        None,
        len(rows),
        sum(known) if known else None,
        furthest(row.time for row in rows),
        remarks[0] + more if remarks else "",
    )


def furthest(times: Iterable[TimeLag | None]) -> TimeLag | None:
    return max((time for time in times if time is not None), key=lambda time: time.seconds, default=None)
