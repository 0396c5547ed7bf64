"""What a plan would do, as rows for people and programs: the dry run.

Records are counted by offsets, so the numbers are upper bounds where a log has gaps. ``repeated`` are those between the
new and the old offset that the partition still holds, read again; ``skipped`` those that would never be read. Without a
committed offset before, everything below the new one counts as skipped, the careful way to read it. An offset that is
taken away leaves the choice to the consumer's reset policy, so both numbers are what the worse policy would do.
"""

from __future__ import annotations

from typing import NamedTuple

from seamark.client import Offset
from seamark.plans.decisions import Standing, group_problem, log_problem, standings, topic_problems
from seamark.plans.plan import Change, ClusterState, LogRange, Plan
from seamark.topic_partition import TopicPartition


class PlanRow(NamedTuple):
    """One change; ``delta`` is None unless both offsets exist, counts are None where the log is not known."""

    group: str
    partition: TopicPartition
    before: Offset | None
    after: Offset | None
    delta: int | None
    repeated: int | None
    skipped: int | None
    standing: Standing
    problem: str


class Preview(NamedTuple):
    """The rows, and what would make an application be refused apart from what is said of a row."""

    rows: list[PlanRow]
    problems: list[str]

    @property
    def is_ready(self) -> bool:
        return not self.problems and not any(row.problem for row in self.rows)

    @property
    def repeated(self) -> int:
        """How many records would be read again, as far as logs are known."""
        return sum(row.repeated or 0 for row in self.rows)

    @property
    def skipped(self) -> int:
        """How many records would never be read, as far as logs are known."""
        return sum(row.skipped or 0 for row in self.rows)


def preview(plan: Plan, state: ClusterState, *, allow_outside_log: bool = False) -> Preview:
    """What the plan would do now: records that are read again or never, and why it would be refused."""
    rows = []
    for row in standings(plan, state):
        change = row.change
        repeated, skipped = _affected(change, state.logs.get(change.partition))
        stale = f"is now at {row.described}" if row.standing is Standing.STALE else ""
        delta = None
        if change.before is not None and change.after is not None:
            delta = change.after.offset - change.before.offset
        is_checked = row.standing is not Standing.DONE and not allow_outside_log
        problem = stale or (log_problem(change, state) if is_checked else "")
        rows.append(
            PlanRow(
                row.group, change.partition, change.before, change.after, delta, repeated, skipped, row.standing,
                problem,
            )
        )  # fmt: skip
    problems = []
    if plan.cluster_id != state.cluster_id:
        problems.append(f"the plan is for cluster {plan.cluster_id!r}, this is cluster {state.cluster_id!r}")
    problems += topic_problems(plan, state)
    # What is complete needs nobody to stop.
    open_groups = dict.fromkeys(row.group for row in rows if row.standing is not Standing.DONE)
    problems += [str(refusal) for group in open_groups if (refusal := group_problem(group, state))]
    return Preview(rows, problems)


def _affected(change: Change, log: LogRange | None) -> tuple[int | None, int | None]:
    if log is None:
        return None, None
    before = log.log_start if change.before is None else _inside(change.before.offset, log)
    if change.after is None:
        return before - log.log_start, log.log_end - before
    after = _inside(change.after.offset, log)
    return max(0, before - after), max(0, after - before)


def _inside(offset: int, log: LogRange) -> int:
    return min(max(offset, log.log_start), log.log_end)
