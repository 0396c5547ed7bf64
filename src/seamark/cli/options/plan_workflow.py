"""What commands that change offsets share: show the plan, write it down, apply it if told to, say what came of it.

Nothing is changed without ``--apply``. What is applied is in a plan file first, whether or not one was named, with its
undo record beside it. ``--plan FILE --apply`` with a file that exists applies that plan: what was looked at is done.
"""

from __future__ import annotations

import time
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.show.rows import Column, Form, write_rows
from seamark.cli.show.terminal_text import say
from seamark.counts import number_text
from seamark.errors import SeamarkError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.client import Admin
    from seamark.plans import Applied, ClusterState, Plan
    from seamark.plans.plan import Wanted

PlanFile = Annotated[str, typer.Option("--plan", metavar="FILE", help="Save the plan in this file.")]
Apply = Annotated[bool, typer.Option("--apply", help="Make the changes; without it nothing is changed.")]
Clamp = Annotated[
    bool, typer.Option("--clamp", help="Replace an offset outside the log by the nearest end of the log.")
]
AllowOutsideLog = Annotated[
    bool, typer.Option("--allow-outside-log", help="Also set offsets that are outside the log.")
]
_REMEDY = "--clamp uses the nearest end of the log instead, --allow-outside-log sets the offset as it is"
_REMEDY_OF_A_FILE = (
    "make a new plan with --clamp to use the nearest end of the log instead, "
    "or give --allow-outside-log to set the offset as it is"
)

_WHERE = (
    Column("GROUP", "group", may_shrink=True),
    Column("TOPIC", "topic", may_shrink=True),
    Column("PARTITION", "partition", is_number=True),
    Column("BEFORE", "before", is_number=True),
    Column("AFTER", "after", is_number=True),
)
_SHOWN = (
    *_WHERE,
    Column("CHANGE", "change", is_number=True),
    Column("REPEATED", "repeated", is_number=True),
    Column("SKIPPED", "skipped", is_number=True),
    Column("PROBLEM", "problem", is_sentence=True),
)
_APPLIED = (*_WHERE, Column("RESULT", "result"), Column("REASON", "reason", is_sentence=True))


def now_ms() -> int:
    return int(time.time() * 1000)


def make_plan(state: ClusterState, wanted: Wanted, *, made_by: str, why: str, clamp: bool, outside: bool) -> Plan:
    """The plan for what is wanted; with ``clamp`` without offsets outside their logs, and each that was is told."""
    from seamark.plans import OutsideLog, build_plan, clamp_to_log

    check_words(clamp, outside)
    if clamp:
        wanted, remarks = clamp_to_log(wanted, state)
        _tell(remarks)
    try:
        return build_plan(state, wanted, made_by=made_by, why=why, now_ms=now_ms())
    except OutsideLog as refused:
        # Below 0, where --allow-outside-log does not help.
        raise SeamarkError(f"{refused}; --clamp uses the nearest end of the log instead") from None


def check_words(clamp: bool, outside: bool) -> None:
    if clamp and outside:
        raise UsageError("--clamp and --allow-outside-log cannot be combined")


def carry_out(
    admin: Admin,
    plan: Plan,
    state: ClusterState,
    *,
    plan_file: str,
    is_to_apply: bool,
    form: Form,
    allow_outside_log: bool = False,
    keep_hint: str = "--plan FILE saves the plan",
) -> None:
    """Show the plan, or apply it; what is not about rows goes to standard error. PlanIncomplete if some failed.

    ``keep_hint`` says in a dry run how the plan is kept, for commands that have an option for it.
    """
    from seamark.plans import OutsideLog, check, digest_of, write_plan

    path = Path(plan_file or f"seamark-plan-{digest_of(plan)[:12]}.json")
    if is_to_apply and plan_file and path.exists():
        apply_file(admin, path, made_as=plan, form=form, allow_outside_log=allow_outside_log)
        return
    if not len(plan):
        if form != "table":
            write_rows(_SHOWN, [], form)
        say("nothing to change: the offsets have the wanted values")
        return
    if is_to_apply:
        try:
            # A plan that is refused leaves no file behind.
            check(plan, state, allow_outside_log=allow_outside_log)
        except OutsideLog as refused:
            raise SeamarkError(f"{refused}; {_REMEDY}") from None
        write_plan(path, plan)
        apply_file(admin, path, made_as=plan, form=form, allow_outside_log=allow_outside_log)
        return
    if plan_file:
        write_plan(path, plan)
    show(
        plan,
        state,
        form,
        written=f"the plan is in {path}" if plan_file else "",
        hint=keep_hint,
        remedy=_REMEDY,
        allow_outside_log=allow_outside_log,
    )


def show_file(admin: Admin, path: Path, *, form: Form, allow_outside_log: bool = False) -> None:
    """The dry run of the plan in a file."""
    from seamark.plans import read_plan, read_state

    plan = read_plan(path)
    state = read_state(admin, plan.partitions)
    show(plan, state, form, written="", hint="", remedy=_REMEDY_OF_A_FILE, allow_outside_log=allow_outside_log)


def show(
    plan: Plan, state: ClusterState, form: Form, *, written: str, hint: str, remedy: str, allow_outside_log: bool
) -> None:
    """The dry run; Exit with 1 if the plan would be refused as things stand.

    ``written`` says where the plan was written, or ``hint`` how it would be.
    """
    from seamark.plans import Standing, preview
    from seamark.plans.errors import some

    previewed = preview(plan, state, allow_outside_log=allow_outside_log)
    rows = (
        (
            row.group, *row.partition, row.before.offset if row.before else None,
            row.after.offset if row.after else None, row.delta, row.repeated, row.skipped,
            row.problem.removeprefix(f"{row.partition}: ") or None,
        )
        for row in previewed.rows
    )  # fmt: skip
    write_rows(_SHOWN, rows, form)
    _tell(previewed.remarks)
    problems = list(previewed.problems)
    if stale := [row for row in previewed.rows if row.standing is Standing.STALE]:
        moved = some([f"{row.partition} of group {row.group!r}: {row.problem}" for row in stale])
        problems.append(f"the plan is stale: {moved}; make a new one")
    if outside := [row.problem for row in previewed.rows if row.problem and row.standing is not Standing.STALE]:
        problems.append(f"{some(outside)}; {remedy}")
    for problem in problems:
        say(f"seamark: --apply would be refused: {problem}")
    if problems:
        say(f"dry run, nothing was changed{': ' if written else ''}{written}")
        raise typer.Exit(1)
    if all(row.standing is Standing.DONE for row in previewed.rows):
        say("nothing to change: the offsets have the planned values")
        return
    next_steps = ", ".join(filter(None, [written or hint, "--apply makes the changes"]))
    say(f"dry run, nothing was changed: {next_steps}")


def apply_file(
    admin: Admin, path: Path, *, form: Form, made_as: Plan | None = None, allow_outside_log: bool = False
) -> None:
    """Apply the plan in a file; BadPlan if it is not one of the same command for the same groups as ``made_as``."""
    from seamark.plans import BadPlan, OutsideLog, apply, read_plan, undo_path_of
    from seamark.plans.applying import ALREADY, CHANGED

    plan = read_plan(path)
    if made_as is not None:
        others = {group.group for group in plan.groups} - {group.group for group in made_as.groups}
        if plan.made_by != made_as.made_by or (others and made_as.groups):
            raise BadPlan(path, f"made by {plan.made_by!r} ({plan.why}), for another change: choose another file name")
    try:
        applied = apply(admin, plan, undo_path=undo_path_of(path), allow_outside_log=allow_outside_log)
    except OutsideLog as refused:
        raise SeamarkError(f"{refused}; {_REMEDY_OF_A_FILE}") from None
    _report(applied, form)
    applied.raise_if_incomplete()
    already = applied.count(ALREADY)
    done = f"{number_text(applied.count(CHANGED))} changed and verified"
    done += f", {number_text(already)} already done" if already else ""
    say(f"{done}; undo with: seamark groups undo {path}")


def take_back(admin: Admin, path: Path, *, is_to_apply: bool, form: Form, clamp: bool, allow_outside_log: bool) -> None:
    """Undo the plan in a file, by the record that its application left; a dry run unless it is to be applied."""
    from seamark.plans import clamp_plan, plan_undo, read_state, read_undo, undo_path_of

    record = read_undo(path if path.name.endswith(".undo.json") else undo_path_of(path))
    state = read_state(admin, record.plan.partitions)
    plan = plan_undo(record, state, made_by="seamark groups undo", now_ms=now_ms())
    if clamp:
        plan, remarks = clamp_plan(plan, state)
        _tell(remarks)
    carry_out(
        admin,
        plan,
        state,
        plan_file=str(_undone_path(path)) if is_to_apply else "",
        is_to_apply=is_to_apply,
        form=form,
        allow_outside_log=allow_outside_log,
        keep_hint="",
    )


def _tell(remarks: Sequence[str]) -> None:
    for remark in remarks:
        say(f"seamark: {remark}")


def _undone_path(path: Path) -> Path:
    """Where the plan that takes one back is kept; a plan may be applied and taken back again."""
    name = path.name.removesuffix(".json").removesuffix(".undo")
    tries = chain([""], (f"-{number}" for number in count(2)))
    return next(
        undone_path for suffix in tries if not (undone_path := path.with_name(f"{name}.undone{suffix}.json")).exists()
    )


def _report(applied: Applied, form: Form) -> None:
    rows = (
        (
            outcome.group, *outcome.change.partition, outcome.change.before.offset if outcome.change.before else None,
            outcome.change.after.offset if outcome.change.after else None, outcome.result, outcome.reason or None,
        )
        for outcome in applied.outcomes
    )  # fmt: skip
    write_rows(_APPLIED, rows, form)
