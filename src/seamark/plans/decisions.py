"""Whether a plan may be applied to what the cluster holds now, and what is left to do: pure, decided before any change.

A change stands in one of three ways: its offset still is what it was (``OPEN``), already is what it should become
(``DONE``, the trace of an earlier attempt), or is something else (``STALE``). One stale change refuses the whole plan.
Applying again after a crash is therefore safe: done changes are left alone, open ones are made.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from seamark.client import Offset
from seamark.plans.errors import GroupInUse, OutsideLog, PlanRefused, PlanStale, TopicChanged, WrongCluster, some
from seamark.plans.plan import Change, ClusterState, Plan, is_same, outside_log

_UNKNOWN_ID = ""


class Standing(Enum):
    """OPEN: as it was when the plan was made · DONE: already changed · STALE: another client has moved it since."""

    OPEN = "open"
    DONE = "done"
    STALE = "stale"


class Standings(NamedTuple):
    """How one change stands; ``found`` is what is committed now."""

    group: str
    change: Change
    standing: Standing
    found: Offset | None

    @property
    def described(self) -> str:
        return describe(self.found)


def standings(plan: Plan, state: ClusterState) -> list[Standings]:
    return [
        Standings(group, change, standing_of(change, current), current)
        for group, change in plan
        for current in (state.committed.get(group, {}).get(change.partition),)
    ]


def standing_of(change: Change, current: Offset | None) -> Standing:
    if is_same(current, change.after):
        return Standing.DONE
    return Standing.OPEN if is_same(current, change.before) else Standing.STALE


def check(plan: Plan, state: ClusterState, *, allow_outside_log: bool = False) -> list[Standings]:
    """How each change stands, if the plan may be applied; otherwise the first of these refusals is raised:

    WrongCluster, TopicChanged, GroupInUse, PlanStale, OutsideLog.
    """
    if state.cluster_id != plan.cluster_id:
        raise WrongCluster(plan.cluster_id, state.cluster_id)
    rows = standings(plan, state)
    left = [row for row in rows if row.standing is not Standing.DONE]
    if changed := topic_problems(plan, state):
        raise TopicChanged(f"{some(changed)}: nothing was changed")
    # What is complete needs nobody to stop.
    for group in dict.fromkeys(row.group for row in left):
        if refusal := group_problem(group, state):
            raise refusal
    stale = [
        (row.group, row.change.partition, difference(row.found, row.change.before))
        for row in left
        if row.standing is Standing.STALE
    ]
    if stale:
        raise PlanStale(stale)
    outside = [problem for row in left if (problem := log_problem(row.change, state))]
    if outside and not allow_outside_log:
        raise OutsideLog(outside)
    return rows


def topic_problems(plan: Plan, state: ClusterState) -> list[str]:
    """Topics that are not the ones the plan was made for; those that only lose offsets need not exist."""
    problems = []
    most: dict[str, int] = {}
    for _, change in plan:
        if change.after is not None:
            most[change.partition.topic] = max(most.get(change.partition.topic, 0), change.partition.partition)
    for topic, highest in sorted(most.items()):
        planned = plan.topic_ids.get(topic, _UNKNOWN_ID)
        now = state.topics.get(topic)
        if now is None:
            problems.append(f"topic {topic!r} no longer exists")
        elif _UNKNOWN_ID not in (planned, now.topic_id) and planned != now.topic_id:
            problems.append(
                f"topic {topic!r} was recreated since the plan was made, its offsets refer to other records"
            )
        elif highest >= now.partition_count:
            problems.append(f"topic {topic!r} has no partition {highest}")
    return problems


def group_problem(group: str, state: ClusterState) -> PlanRefused | None:
    described = state.groups.get(group)
    if described is None:
        return None
    if described.type not in ("classic", "consumer"):
        return PlanRefused(
            f"group {group!r} is a {described.type} group: its offsets cannot be set; nothing was changed"
        )
    return GroupInUse(group, described.state, described.members) if described.is_active else None


def log_problem(change: Change, state: ClusterState) -> str:
    """What is wrong with the new offset, as far as the partition's log is concerned; empty if nothing is."""
    if change.after is None:
        return ""
    log = state.logs.get(change.partition)
    if log is None:
        reason = state.unreadable.get(change.partition, "it was not requested")
        return f"the log of {change.partition} cannot be read ({reason})"
    problem = outside_log(change.after.offset, log)
    return f"{change.partition}: {problem}" if problem else ""


def difference(current: Offset | None, planned: Offset | None) -> str:
    """How what is committed differs from what the plan was made for."""
    if current is None or planned is None or current.offset != planned.offset:
        return f"is at {describe(current)}, not at {describe(planned)}"
    what = "metadata" if current.metadata != planned.metadata else "leader epoch"
    return f"is still at {describe(current)}, but its {what} changed since the plan was made"


def describe(offset: Offset | None) -> str:
    return "no offset" if offset is None else str(offset.offset)
