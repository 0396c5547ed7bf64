"""The nearest end of the log in place of offsets that lie outside it, for those who ask for it: pure.

Kafka's own reset tool always does this. Here it is never done unasked: a mistyped offset would skip all that a
partition holds. Every replacement is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from seamark.client import Offset
from seamark.counts import number_text
from seamark.plans.plan import ClusterState, LogRange, Plan, Wanted, build_plan, outside_log
from seamark.topic_partition import TopicPartition


class Clamped(NamedTuple):
    """Wanted offsets with those outside replaced, and a sentence for each that was."""

    wanted: dict[str, dict[TopicPartition, Offset | int | None]]
    remarks: list[str]


def clamp_to_log(wanted: Wanted, state: ClusterState) -> Clamped:
    """Replace what lies outside a log by its nearest end, without metadata: that was about another offset.

    Logs that could not be read are left to the checks of the plan.
    """
    remarks: list[str] = []
    inside: dict[str, dict[TopicPartition, Offset | int | None]] = {}
    for group, offsets in wanted.items():
        inside[group] = {
            partition: _clamped(group, partition, offset, state.logs, remarks) for partition, offset in offsets.items()
        }
    return Clamped(inside, remarks)


def clamp_plan(plan: Plan, state: ClusterState) -> tuple[Plan, list[str]]:
    """The same for a plan that was made of ``state``: the plan without offsets outside, and what was replaced."""
    wanted = {group.group: {change.partition: change.after for change in group.changes} for group in plan.groups}
    inside, remarks = clamp_to_log(wanted, state)
    if not remarks:
        return plan, []
    made = build_plan(state, inside, made_by=plan.made_by, why=plan.why, now_ms=plan.created_ms)
    return replace(made, undoes=plan.undoes), remarks


def _clamped(
    group: str,
    partition: TopicPartition,
    wanted: Offset | int | None,
    logs: Mapping[TopicPartition, LogRange],
    remarks: list[str],
) -> Offset | int | None:
    log = logs.get(TopicPartition(*partition))
    if wanted is None or log is None:
        return wanted
    offset = wanted.offset if isinstance(wanted, Offset) else wanted
    problem = outside_log(offset, log)
    if not problem:
        return wanted
    is_before = offset < log.log_start
    end = log.log_start if is_before else log.log_end
    remarks.append(
        f"group {group!r}, {partition}: {problem}: "
        f"the {'start' if is_before else 'end'} of the log, {number_text(end)}, is used"
    )
    return end
