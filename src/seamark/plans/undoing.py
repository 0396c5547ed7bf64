"""Taking an applied plan back: the record that an application leaves, and the plan that undoes it.

The record is written before the first change and again after the last, so whatever is changed has one. It holds the
whole plan; what came of each change is for people, an undo looks at the cluster instead:

- the offset is what the plan set: it goes back to what it was before;
- it is what it was before: that change was never made, nothing to do;
- it is anything else: somebody moved it since, and the undo is refused as stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seamark.plans.decisions import Standing, standings
from seamark.plans.errors import PlanStale, WrongCluster
from seamark.plans.plan import Change, ClusterState, GroupChanges, Plan
from seamark.plans.plan_text import Fields, content_of, digest_of, opened, plan_from, sealed, time_text
from seamark.topic_partition import TopicPartition

FORMAT = "seamark.undo"
VERSION = 1


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """What was applied and when; ``finished_ms`` is None while, or if, the plan was not applied to its end."""

    plan: Plan
    started_ms: int
    finished_ms: int | None = None
    results: Mapping[tuple[str, TopicPartition], str] = field(default_factory=dict)


def plan_undo(record: UndoRecord, state: ClusterState, *, made_by: str, now_ms: int) -> Plan:
    """The plan that undoes the record's plan; it may be empty. PlanStale if offsets were moved since."""
    plan = record.plan
    if state.cluster_id != plan.cluster_id:
        raise WrongCluster(plan.cluster_id, state.cluster_id)
    rows = standings(plan, state)
    moved = [
        (row.group, row.change.partition, f"has been moved to {row.described} since")
        for row in rows
        if row.standing is Standing.STALE
    ]
    if moved:
        raise PlanStale(moved)
    groups: dict[str, list[Change]] = {}
    for row in rows:
        if row.standing is Standing.DONE:
            change = row.change
            groups.setdefault(row.group, []).append(Change(change.partition, change.after, change.before))
    named = {change.partition.topic for changes in groups.values() for change in changes}
    return Plan(
        plan.cluster_id,
        now_ms,
        made_by,
        f"undo of: {plan.why}" if plan.why else "undo",
        {topic: topic_id for topic, topic_id in plan.topic_ids.items() if topic in named},
        tuple(GroupChanges(group, tuple(changes)) for group, changes in groups.items()),
        undoes=digest_of(plan),
    )


def text_of_undo(record: UndoRecord) -> str:
    return sealed(
        {
            "format": FORMAT,
            "version": VERSION,
            "started_at": time_text(record.started_ms),
            "finished_at": None if record.finished_ms is None else time_text(record.finished_ms),
            "plan": content_of(record.plan),
            "results": [
                {"group": group, "topic": partition.topic, "partition": partition.partition, "result": result}
                for (group, partition), result in record.results.items()
            ],
        }
    )


def parse_undo(text: str, source: Path | str = "undo record") -> UndoRecord:
    content: dict[str, Any] = opened(text, source, FORMAT, "undo record", VERSION)
    fields = Fields(content, source)
    fields.mapping("plan")
    results = {
        (
            result.text("group"),
            TopicPartition(result.text("topic"), result.number("partition", 2**31 - 1)),
        ): result.text("result")
        for result in fields.items("results")
    }
    return UndoRecord(
        plan_from(content["plan"], source),
        fields.time("started_at"),
        None if fields.get("finished_at") is None else fields.time("finished_at"),
        results,
    )
