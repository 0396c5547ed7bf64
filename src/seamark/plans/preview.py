"""What a plan would do, as rows for people and programs: the dry run.

Records are counted by offsets, so the numbers are upper bounds where a log has gaps. ``repeated`` are those that the
partition still holds, that were done before and are not done afterwards; ``skipped`` those that were not done and would
never be read. Done is what lies below a committed offset, and what its done-ahead map has beyond. Without a committed
offset before, everything below the new one counts as skipped, the careful way to read it. An offset that is taken away
leaves the choice to the consumer's reset policy, so both numbers are what the worse policy would do.
"""

from __future__ import annotations

from typing import NamedTuple

from seamark.client import Offset
from seamark.counts import counted
from seamark.plans import progress
from seamark.plans.decisions import Standing, group_problem, log_problem, standings, topic_problems
from seamark.plans.plan import Change, ClusterState, LogRange, Plan
from seamark.plans.progress import Ranges
from seamark.topic_partition import TopicPartition


class PlanRow(NamedTuple):
    """One change; ``delta`` is None unless both offsets exist, counts are None where the log is not known.

    Of the ``repeated`` records ``repeated_ahead`` were done beyond the committed offset; ``done_between`` lie between
    the old and the new offset and are done, so that they are not ``skipped``.
    """

    group: str
    partition: TopicPartition
    before: Offset | None
    after: Offset | None
    delta: int | None
    repeated: int | None
    skipped: int | None
    standing: Standing
    problem: str
    repeated_ahead: int = 0
    done_between: int = 0


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

    @property
    def remarks(self) -> list[str]:
        """What the numbers do not say by themselves of records that were done out of order."""
        said = []
        if ahead := sum(row.repeated_ahead for row in self.rows):
            said.append(
                f"{counted(ahead, 'record')} of those repeated had been done beyond the committed offset; "
                "the change drops the done-ahead map, so they would be processed again"
            )
        if between := sum(row.done_between for row in self.rows):
            said.append(
                f"{counted(between, 'record')} before the new offset had been done beyond the committed one, and so "
                "would not be skipped; an offset that is done itself is replaced by the next one that is not"
            )
        return said


def preview(plan: Plan, state: ClusterState, *, allow_outside_log: bool = False) -> Preview:
    """What the plan would do now: records that are read again or never, and why it would be refused."""
    rows = []
    for row in standings(plan, state):
        change = row.change
        affected = _affected(change, state.logs.get(change.partition))
        stale = f"is now at {row.described}" if row.standing is Standing.STALE else ""
        delta = None
        if change.before is not None and change.after is not None:
            delta = change.after.offset - change.before.offset
        is_checked = row.standing is not Standing.DONE and not allow_outside_log
        problem = stale or (log_problem(change, state) if is_checked else "")
        rows.append(
            PlanRow(
                row.group, change.partition, change.before, change.after, delta, affected.repeated, affected.skipped,
                row.standing, problem, affected.repeated_ahead, affected.done_between,
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


class _Affected(NamedTuple):
    repeated: int | None
    skipped: int | None
    repeated_ahead: int = 0
    done_between: int = 0


def _affected(change: Change, log: LogRange | None) -> _Affected:
    if log is None:
        return _Affected(None, None)
    before, after = change.before, change.after
    ahead = progress.within(progress.done_beyond(before), *log)
    if before is not None and after is not None and not ahead and not progress.done_beyond(after):
        # By far the most changes, and plans may have very many.
        start, stop = _inside(before.offset, log), _inside(after.offset, log)
        return _Affected(max(0, start - stop), max(0, stop - start))
    was_done = _done(before, log)
    if after is None:
        # Of the reset policies, earliest repeats all and latest skips all.
        done = progress.count(was_done)
        return _Affected(done, log.log_end - log.log_start - done, progress.count(ahead))
    is_done = _done(after, log)
    between = progress.count(progress.within(ahead, log.log_start, after.offset))
    return _Affected(
        progress.without(was_done, is_done),
        progress.without(is_done, was_done),
        progress.without(ahead, is_done),
        between,
    )


def _done(committed: Offset | None, log: LogRange) -> Ranges:
    """What is done, of what the log holds."""
    if committed is None:
        return []
    beyond = progress.within(progress.done_beyond(committed), *log)
    frontier = _inside(committed.offset, log)
    return [(log.log_start, frontier), *beyond] if frontier > log.log_start else beyond


def _inside(offset: int, log: LogRange) -> int:
    return min(max(offset, log.log_start), log.log_end)
