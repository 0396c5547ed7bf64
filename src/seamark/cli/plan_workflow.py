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

from seamark.cli.rows import Column, Form, write_rows

if TYPE_CHECKING:
    from seamark.client.admin import Admin
    from seamark.plans import Applied, ClusterState, Plan

PlanFile = Annotated[str, typer.Option("--plan", metavar="FILE", help="Write the plan there.")]
Apply = Annotated[bool, typer.Option("--apply", help="Make the changes; without it nothing is changed.")]
AllowOutsideLog = Annotated[
    bool, typer.Option("--allow-outside-log", help="Set offsets that the partition does not hold, too.")
]

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


def carry_out(
    admin: Admin,
    plan: Plan,
    state: ClusterState,
    *,
    plan_file: str,
    is_to_apply: bool,
    form: Form,
    allow_outside_log: bool = False,
) -> None:
    """Show the plan, or apply it; what is not about rows goes to standard error. PlanIncomplete if some failed."""
    from seamark.plans import digest_of, write_plan

    path = Path(plan_file or f"seamark-plan-{digest_of(plan).removeprefix('sha256:')[:12]}.json")
    if is_to_apply and plan_file and path.exists():
        apply_file(admin, path, made_as=plan, form=form, allow_outside_log=allow_outside_log)
        return
    if not len(plan):
        if form != "table":
            write_rows(_SHOWN, [], form)
        typer.echo("nothing to change: the offsets are as wanted", err=True)
        return
    if plan_file or is_to_apply:
        write_plan(path, plan)
    if is_to_apply:
        apply_file(admin, path, made_as=plan, form=form, allow_outside_log=allow_outside_log)
        return
    show(plan, state, form)
    written = f"the plan is in {path}" if plan_file else "--plan FILE keeps the plan"
    typer.echo(f"dry run, nothing was changed: {written}, --apply makes the changes", err=True)


def show(plan: Plan, state: ClusterState, form: Form) -> None:
    """The dry run."""
    from seamark.plans import preview

    found = preview(plan, state)
    rows = (
        (
            row.group, *row.partition, row.before.offset if row.before else None,
            row.after.offset if row.after else None, row.delta, row.repeated, row.skipped, row.problem or None,
        )
        for row in found.rows
    )  # fmt: skip
    write_rows(_SHOWN, rows, form)
    for problem in found.problems:
        typer.echo(f"seamark: as things stand it would be refused: {problem}", err=True)


def apply_file(
    admin: Admin, path: Path, *, form: Form, made_as: Plan | None = None, allow_outside_log: bool = False
) -> None:
    """Apply the plan in a file; BadPlan if it is not one of the same command for the same groups as ``made_as``."""
    from seamark.plans import BadPlan, apply, read_plan, undo_path_of
    from seamark.plans.applying import ALREADY, CHANGED

    plan = read_plan(path)
    if made_as is not None:
        others = {each.group for each in plan.groups} - {each.group for each in made_as.groups}
        if plan.made_by != made_as.made_by or (others and made_as.groups):
            raise BadPlan(path, f"made by {plan.made_by!r} ({plan.why}), not for what was asked: choose another name")
    applied = apply(admin, plan, undo_path=undo_path_of(path), allow_outside_log=allow_outside_log)
    _report(applied, form)
    applied.raise_if_incomplete()
    already = applied.count(ALREADY)
    done = f"{applied.count(CHANGED)} changed and verified" + (f", {already} were done already" if already else "")
    typer.echo(f"{done}; take it back with: seamark groups undo {path}", err=True)


def take_back(admin: Admin, path: Path, *, is_to_apply: bool, form: Form, allow_outside_log: bool = False) -> None:
    """Undo the plan in a file, by the record that its application left; a dry run unless it is to be applied."""
    from seamark.plans import plan_undo, read_state, read_undo, undo_path_of

    record = read_undo(path if path.name.endswith(".undo.json") else undo_path_of(path))
    state = read_state(admin, record.plan.partitions)
    plan = plan_undo(record, state, made_by="seamark groups undo", now_ms=now_ms())
    carry_out(
        admin,
        plan,
        state,
        plan_file=str(_undone_path(path)) if is_to_apply else "",
        is_to_apply=is_to_apply,
        form=form,
        allow_outside_log=allow_outside_log,
    )


def _undone_path(path: Path) -> Path:
    """Where the plan that takes one back is kept; a plan may be applied and taken back again."""
    name = path.name.removesuffix(".json").removesuffix(".undo")
    tries = chain([""], (f"-{number}" for number in count(2)))
    return next(found for each in tries if not (found := path.with_name(f"{name}.undone{each}.json")).exists())


def _report(applied: Applied, form: Form) -> None:
    rows = (
        (
            each.group, *each.change.partition, each.change.before.offset if each.change.before else None,
            each.change.after.offset if each.change.after else None, each.result, each.reason or None,
        )
        for each in applied.outcomes
    )  # fmt: skip
    write_rows(_APPLIED, rows, form)
