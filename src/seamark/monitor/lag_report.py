"""Lag per group and topic, or per partition: records, time, and what these numbers hide.

The time of a topic is that of its partition furthest behind: an average would hide the one that stands still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from seamark.counts import counted
from seamark.monitor.scan import OFFSETS_UNREAD, Bounds, GroupView, PartitionView, Scan
from seamark.rules.lag import Basis, loss_text, total, total_unfinished
from seamark.rules.time_lag import TimeLag
from seamark.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class LagRow:
    """``partition`` is None in a row for a whole topic; ``records`` and ``unfinished`` are None where not known.

    ``topic`` is None in the one row of a group whose committed offsets could not be read.
    """

    group: str
    topic: str | None
    partition: int | None
    records: int | None
    lost: int
    unfinished: int | None
    beyond: int
    time: TimeLag | None
    remark: str = ""


def lag_rows(
    scan: Scan, times: Mapping[tuple[str, TopicPartition], TimeLag], *, by_partition: bool = False
) -> list[LagRow]:
    """One row per group and topic, or per partition."""
    rows: list[LagRow] = []
    for view in scan.groups:
        if view.error:
            rows.append(LagRow(view.group_id, None, None, None, 0, None, 0, None, view.error))
            continue
        for topic, partitions in groupby(view.partitions, key=lambda partition: partition.partition.topic):
            some = list(partitions)
            partition_rows = [_partition_row(view, partition, times) for partition in some]
            rows.extend(partition_rows if by_partition else [_topic_row(view, topic, some, partition_rows)])
    return rows


def _partition_row(
    view: GroupView, partition: PartitionView, times: Mapping[tuple[str, TopicPartition], TimeLag]
) -> LagRow:
    lag = partition.lag
    return LagRow(
        view.group_id, *partition.partition, lag.records, lag.lost, lag.unfinished, lag.beyond,
        times.get((view.group_id, partition.partition)), remark_of(partition),
    )  # fmt: skip


def remark_of(view: PartitionView) -> str:
    """What a number alone would hide."""
    lag = view.lag
    if lag.basis is Basis.UNKNOWN:
        return silence_text(view.bounds)
    if lag.basis is Basis.NO_COMMIT:
        return "no committed offset"
    return loss_text(lag)


def silence_text(bounds: Bounds) -> str:
    """Why nothing is known of a partition."""
    reason = bounds.error or ""
    return reason if reason.startswith(OFFSETS_UNREAD) else f"could not be read: {reason}"


def _topic_row(view: GroupView, topic: str, partitions: Sequence[PartitionView], rows: Sequence[LagRow]) -> LagRow:
    lags = [partition.lag for partition in partitions]
    # What is lost for good is said before what is only not known.
    remarked = sorted((row for row in rows if row.remark), key=lambda row: (-row.beyond, -row.lost))
    more = f" (and {len(remarked) - 1} more)" if len(remarked) > 1 else ""
    return LagRow(
        view.group_id, topic, None, total(lags), sum(lag.lost for lag in lags), total_unfinished(lags),
        sum(lag.beyond for lag in lags), furthest(row.time for row in rows),
        f"partition {remarked[0].partition}: {remarked[0].remark}{more}" if remarked else "",
    )  # fmt: skip


def group_remark(view: GroupView) -> str:
    """What the sums over a group's partitions hide."""
    parts = [view.error or ""]
    if beyond := sum(partition.lag.beyond > 0 for partition in view.partitions):
        parts.append(f"{counted(beyond, 'partition')} committed beyond the log's end, by {view.beyond} in total")
    if view.lost:
        parts.append(f"{counted(view.lost, 'record')} deleted before being read")
    if not view.error and (unknown := view.partitions_unknown):
        parts.append(f"{counted(unknown, 'partition')} could not be read")
    if uncommitted := view.partitions_uncommitted:
        parts.append(f"{counted(uncommitted, 'partition')} without a committed offset")
    return "; ".join(part for part in parts if part)


def furthest(times: Iterable[TimeLag | None]) -> TimeLag | None:
    """The longest time; what is at least as long as another is longer."""
    known = [time for time in times if time is not None]
    return max(known, key=lambda time: (time.seconds, not time.is_exact), default=None)
