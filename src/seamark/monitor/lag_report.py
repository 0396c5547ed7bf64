"""Lag per group and topic, or per partition: records, time with its error, and what is wrong beside it.

The time of a topic is that of its partition furthest behind: an average would hide the one that stands still.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from seamark.client.admin import Admin
from seamark.monitor.ages import ages
from seamark.monitor.scan import GroupView, PartitionView, Scan
from seamark.rules.lag import Basis
from seamark.rules.time_lag import Anchor, TimeLag, time_lag
from seamark.topic_partition import TopicPartition

# Places of one log that are asked about, each of which takes some requests.
_MOST_PLACES = 8


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
    """The time lag of every partition of every group, with a bounded number of questions.

    Groups that stand at different places of one partition are asked about in rounds of their own, but not more than a
    few: between the places that were asked about, the others are estimated, and their error says so.
    """
    waiting: dict[TopicPartition, dict[int, list[str]]] = {}
    ends: dict[TopicPartition, int] = {}
    for view in scan.groups:
        for each in view.partitions:
            position = position_of(each, reset)
            if position is not None and each.bounds.log_end is not None:
                waiting.setdefault(each.partition, {}).setdefault(position, []).append(view.group_id)
                ends[each.partition] = each.bounds.log_end
    places = {partition: _spread(sorted(positions)) for partition, positions in waiting.items()}
    known: dict[TopicPartition, dict[int, TimeLag]] = {partition: {} for partition in waiting}
    for turn in range(_MOST_PLACES):
        asked = {each: (found[turn], ends[each]) for each, found in places.items() if turn < len(found)}
        if not asked:
            break
        for partition, age in ages(admin, asked, now_ms, timeout=timeout).items():
            known[partition][asked[partition][0]] = age
    return {
        (group, partition): known[partition].get(position)
        or age_between(position, ends[partition], now_ms, known[partition])
        for partition, positions in waiting.items()
        if known[partition]
        for position, groups in positions.items()
        for group in groups
    }


def _spread(positions: Sequence[int]) -> list[int]:
    """A few of many, with the first and the last."""
    if len(positions) <= _MOST_PLACES:
        return list(positions)
    return [positions[turn * (len(positions) - 1) // (_MOST_PLACES - 1)] for turn in range(_MOST_PLACES)]


def age_between(position: int, log_end: int, now_ms: int, known: Mapping[int, TimeLag]) -> TimeLag:
    """The time lag at a position, from those at others of the same log; their own errors are added to its error.

    >>> age_between(50, 200, 100_000, {0: TimeLag(60.0, 1.0, "interpolated"), 100: TimeLag(40.0, 0.0, "read")})
    TimeLag(seconds=50.0, error=11.0, method='interpolated')
    """
    exact = {place: age for place, age in known.items() if math.isfinite(age.error) and place < log_end}
    anchors = [Anchor(place, round(now_ms - age.seconds * 1000)) for place, age in exact.items()]
    found = time_lag(position, log_end, now_ms, anchors)
    below = max((place for place in exact if place <= position), default=None)
    above = min((place for place in exact if place > position), default=None)
    slack = max((exact[place].error for place in (below, above) if place is not None), default=0.0)
    return TimeLag(found.seconds, found.error + slack, found.method)


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
