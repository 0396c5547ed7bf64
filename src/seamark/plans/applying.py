"""Applies a plan through an admin client: check, leave an undo record, change, read back, say what came of each.

Nothing is changed unless every check passes. From the first change on nothing is raised for what the cluster does: each
change is reported as changed, done already, failed, moved by somebody else, or not verified. A process that dies at any
point leaves an undo record, and the same plan can be applied again: it does what is left.

Kafka has no commit on condition, so somebody who commits between the check and the change is overwritten; members are
refused by the broker itself, and what is read back afterwards is compared.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seamark.client import Offset
from seamark.client.errors import ClientError, MemberFenced
from seamark.client.group_offsets import commit_portions
from seamark.errors import SeamarkError
from seamark.plans.cluster_reading import read_committed, read_state
from seamark.plans.decisions import Standing, Standings, check, describe
from seamark.plans.errors import PlanError, PlanIncomplete
from seamark.plans.plan import Change, Plan, is_same
from seamark.plans.plan_file import write_undo
from seamark.plans.undoing import UndoRecord
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    from seamark.client import Admin

CHANGED = "changed"
ALREADY = "already"
FAILED = "failed"
MOVED = "moved"
UNVERIFIED = "unverified"

# Groups are changed side by side: each waits for its own coordinator's append.
_GROUPS_AT_ONCE = 8

Errors = dict[TopicPartition, SeamarkError]


class Outcome(NamedTuple):
    """The outcome of one change; ``reason`` says why it was not made."""

    group: str
    change: Change
    result: str
    reason: str = ""

    @property
    def is_made(self) -> bool:
        return self.result in (CHANGED, ALREADY)


@dataclass(frozen=True, slots=True)
class Applied:
    """The report of an application."""

    plan: Plan
    outcomes: tuple[Outcome, ...]
    undo_path: Path | None

    @property
    def is_complete(self) -> bool:
        return all(outcome.is_made for outcome in self.outcomes)

    def count(self, result: str) -> int:
        return sum(outcome.result == result for outcome in self.outcomes)

    def raise_if_incomplete(self) -> None:
        failures = [
            f"{outcome.change.partition} of group {outcome.group!r}: {outcome.reason}"
            for outcome in self.outcomes
            if not outcome.is_made
        ]
        if failures:
            raise PlanIncomplete(failures, len(self.outcomes))


def _wall_clock_ms() -> int:
    return int(time.time() * 1000)


def apply(
    admin: Admin,
    plan: Plan,
    *,
    now_ms: Callable[[], int] = _wall_clock_ms,
    undo_path: Path | None = None,
    allow_outside_log: bool = False,
    timeout: float | None = None,
) -> Applied:
    """Make the plan's changes that are not made yet; PlanRefused before anything is changed, a report afterwards."""
    if not plan.groups:
        return Applied(plan, (), None)
    state = read_state(admin, plan.partitions, timeout=timeout)
    standing = check(plan, state, allow_outside_log=allow_outside_log)
    todo: dict[str, list[Change]] = {}
    for row in standing:
        if row.standing is Standing.OPEN:
            todo.setdefault(row.group, []).append(row.change)
    started_ms = now_ms()
    if undo_path is not None and todo:
        write_undo(undo_path, UndoRecord(plan, started_ms))
    errors: dict[str, Errors] = {}
    if todo:
        with ThreadPoolExecutor(min(_GROUPS_AT_ONCE, len(todo)), "seamark-plan") as pool:
            failed = pool.map(lambda group: _change(admin, group, todo[group], timeout), todo)
            errors = dict(zip(todo, failed, strict=True))
    outcomes = _verify(admin, standing, errors, timeout)
    if undo_path is not None and todo:
        results = {(outcome.group, outcome.change.partition): outcome.result for outcome in outcomes}
        # The record of the start has all that an undo needs; a full disk must not cost the report.
        with contextlib.suppress(PlanError):
            write_undo(undo_path, UndoRecord(plan, started_ms, now_ms(), results))
    return Applied(plan, outcomes, undo_path)


def _change(admin: Admin, group: str, changes: list[Change], timeout: float | None) -> Errors:
    """Make the changes of one group; what failed, by partition."""
    errors: Errors = {}
    wanted = {change.partition: change.after for change in changes if change.after is not None}
    for portion in commit_portions(group, wanted):
        try:
            # All groups have been looked at together.
            errors |= admin.alter_group_offsets(group, {**portion}, look_first=False, timeout=timeout).errors
        except ClientError as error:
            errors |= dict.fromkeys(portion, error)
    taken = [change.partition for change in changes if change.after is None]
    if taken:
        try:
            errors |= admin.delete_group_offsets(group, taken, timeout=timeout).errors
        except ClientError as error:
            errors |= dict.fromkeys(taken, error)
    return errors


def _verify(
    admin: Admin, standing: list[Standings], errors: dict[str, Errors], timeout: float | None
) -> tuple[Outcome, ...]:
    wanted: dict[str, list[TopicPartition]] = {}
    for row in standing:
        if row.standing is Standing.OPEN:
            wanted.setdefault(row.group, []).append(row.change.partition)
    try:
        committed = read_committed(admin, wanted, timeout=timeout)
    except ClientError as error:
        return tuple(_unread(row, errors, error) for row in standing)
    return tuple(_outcome(row, committed.get(row.group, {}), errors) for row in standing)


def _outcome(row: Standings, committed: dict[TopicPartition, Offset], errors: dict[str, Errors]) -> Outcome:
    group, change = row.group, row.change
    if row.standing is Standing.DONE:
        return Outcome(group, change, ALREADY)
    current = committed.get(change.partition)
    if is_same(current, change.after):
        return Outcome(group, change, CHANGED)
    error = errors.get(group, {}).get(change.partition)
    if error is not None:
        return Outcome(group, change, FAILED, _reason(error))
    return Outcome(group, change, MOVED, f"another client set it to {describe(current)} at the same time")


def _unread(row: Standings, errors: dict[str, Errors], reading: ClientError) -> Outcome:
    group, change = row.group, row.change
    if row.standing is Standing.DONE:
        return Outcome(group, change, ALREADY)
    error = errors.get(group, {}).get(change.partition)
    if error is not None:
        return Outcome(group, change, FAILED, _reason(error))
    return Outcome(group, change, UNVERIFIED, f"the change was accepted but could not be read back: {reading}")


def _reason(error: SeamarkError) -> str:
    # The broker takes a commit from outside for one of a member that it does not know.
    joined = "a member has joined the group: " if isinstance(error, MemberFenced) else ""
    return f"{joined}{error}"
