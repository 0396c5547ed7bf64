"""``seamark migrate show | apply | verify | rollback``: what is done with the plan of a move that was made before.

``apply_move`` is how every move is made, whether its plan is a minute or a month old: with a journal, a row for each
group, and an exit code that is not 0 when any of them is not as planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.migrate.rows import ProgressLine, plan_sentence, show_outcomes, show_plan, show_verified
from seamark.cli.migrate.sides import (
    Connections,
    ToBootstrap,
    ToConfigFile,
    ToOptions,
    Zookeeper,
    ZookeeperConfig,
    opened,
)
from seamark.cli.options.connection import Bootstrap, ConfigFile, Json, Options
from seamark.cli.options.plan_workflow import AllowOutsideLog, Apply, now_ms
from seamark.cli.show.rows import Form, chosen_form
from seamark.cli.show.terminal_text import say
from seamark.counts import counted, number_text
from seamark.errors import SeamarkError, UsageError

if TYPE_CHECKING:
    from seamark.moves import GroupOutcome, MoveFile, Mover, Returner, Side, Verified

Partial = Annotated[
    bool, typer.Option("--partial", help="For groups with problems, move the offsets that can be moved.")
]
Active = Annotated[
    bool,
    typer.Option(
        "--allow-active-source", help="Copy from groups with running consumers; their later commits are not copied."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted move.")]
_Plan = Annotated[str, typer.Argument(metavar="PLAN", help="The plan file of a move.")]


def add_to(migrate: typer.Typer) -> None:
    migrate.command("show")(show)
    migrate.command("apply")(apply_plan)
    migrate.command("verify")(verify)
    migrate.command("rollback")(rollback)


def show(plan: _Plan, as_json: Json = False) -> None:
    """Show the plan of a move."""
    from seamark.moves import open_move

    move = open_move(Path(plan))
    show_plan(move, chosen_form(as_json))
    header = move.header
    say(f"{header.kind} from {header.source} to {header.target}: {plan_sentence(move, partial=False)}")


def apply_plan(
    plan: _Plan,
    resume: Resume = False,
    partial: Partial = False,
    active: Active = False,
    outside: AllowOutsideLog = False,
    zookeeper: Zookeeper = "",
    zookeeper_config: ZookeeperConfig = "",
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    to_bootstrap: ToBootstrap = "",
    to_config: ToConfigFile = "",
    to_option: ToOptions = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Apply the plan of a move.

    An interrupted move continues where it stopped.
    """
    from seamark.moves import open_move

    move = open_move(Path(plan))
    given = Connections(bootstrap, config, option, zookeeper, to_bootstrap, to_config, to_option, zookeeper_config)
    with opened(move.header.kind, given, move.header) as (source, target):
        apply_move(move, source, target, resume, partial, active, outside, chosen_form(as_json))


def verify(
    plan: _Plan,
    zookeeper: Zookeeper = "",
    zookeeper_config: ZookeeperConfig = "",
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    to_bootstrap: ToBootstrap = "",
    to_config: ToConfigFile = "",
    to_option: ToOptions = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Read both sides and compare them with the plan."""
    from seamark.moves import open_move
    from seamark.moves import verify as verified

    move = open_move(Path(plan))
    given = Connections(bootstrap, config, option, zookeeper, to_bootstrap, to_config, to_option, zookeeper_config)
    seen = {"offsets": 0, "different": 0}

    def differences(rows: Iterable[Verified]) -> Iterator[Verified]:
        for row in rows:
            seen["offsets"] += 1
            if row.difference:
                seen["different"] += 1
                yield row

    with opened(move.header.kind, given, move.header) as (source, target):
        show_verified(differences(verified(move, source, target)), chosen_form(as_json))
    if seen["different"]:
        raise SeamarkError(f"{number_text(seen['different'])} of {counted(seen['offsets'], 'offset')} not as planned")
    say(f"{counted(seen['offsets'], 'offset')} as planned on both sides")


def rollback(
    plan: _Plan,
    apply: Apply = False,
    outside: AllowOutsideLog = False,
    zookeeper: Zookeeper = "",
    zookeeper_config: ZookeeperConfig = "",
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    to_bootstrap: ToBootstrap = "",
    to_config: ToConfigFile = "",
    to_option: ToOptions = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Restore the old offsets of the target.

    Offsets that another client has moved since are left unchanged.
    """
    from seamark.moves import Journal, MoveIncomplete, Returner, open_move

    move = open_move(Path(plan))
    if not move.journal_path.exists():
        raise UsageError(f"{plan} was never applied: {move.journal_path.name} does not exist")
    given = Connections(bootstrap, config, option, zookeeper, to_bootstrap, to_config, to_option, zookeeper_config)
    with (
        opened(move.header.kind, given, move.header) as (_, target),
        Journal(move, now_ms=now_ms()) as journal,
    ):
        work = Returner(move, target, journal, now_ms, dry_run=not apply, allow_outside_log=outside)
        _show_work(work, "rolling back", chosen_form(as_json))
    summary = work.summary
    if summary.left:
        raise MoveIncomplete(summary.left, summary.groups, "not back" if apply else "would not be rolled back")
    if not apply:
        say(f"dry run, nothing was changed: {counted(summary.groups, 'group')} would be rolled back, --apply does it")
        return
    say(f"{counted(summary.groups, 'group')} back, {counted(summary.offsets, 'offset')} set and read back")


def apply_move(
    plan: MoveFile,
    source: Side,
    target: Side,
    resume: bool,
    partial: bool,
    active: bool,
    outside: bool,
    form: Form,
    *,
    is_fresh: bool = False,
) -> None:
    from seamark.moves import Journal, MoveBegun, MoveIncomplete, Mover, Progress

    with Journal(plan, now_ms=now_ms()) as journal:
        moved = journal.count(Progress.MOVED)
        if not resume and (moved or journal.count(Progress.BEGUN)):
            raise MoveBegun(plan.path, moved, plan.totals.groups)
        work = Mover(
            plan,
            source,
            target,
            journal,
            now_ms,
            partial=partial,
            allow_active_source=active,
            source_is_fresh=is_fresh,
            allow_outside_log=outside,
        )
        _show_work(work, "moving", form)
    summary = work.summary
    if summary.left:
        raise MoveIncomplete(summary.left, summary.groups, "not moved")
    again = f" ({moved} before)" if moved else ""
    done = f"{counted(summary.groups, 'group')} moved{again}, {counted(summary.offsets, 'offset')} set and read back"
    say(f"{done}; seamark migrate rollback {plan.path} undoes it")


def _show_work(work: Mover | Returner, what: str, form: Form) -> None:
    """Do it, showing what came of each group; an interruption is raised after the rows that there are."""
    from seamark.plans import PlanError

    line = ProgressLine(what, work.summary.groups)
    ended: list[PlanError] = []

    def outcomes() -> Iterator[GroupOutcome]:
        done = 0
        try:
            for outcome in work.outcomes():
                done += 1
                # A row may be written where the line stands.
                line.end()
                yield outcome
                line(done, work.summary.offsets)
        except PlanError as error:
            ended.append(error)
        line.end()

    show_outcomes(outcomes(), form)
    if ended:
        raise ended[0]
