"""``seamark audit``: fill an offsets lake from a cluster, say what was found, write the report; and look back in time.

    seamark audit --bootstrap HOST:PORT --out DIR [--report FILE.html]
    seamark audit as-of TIME --lake DIR [--group G] [--plan FILE] [--apply]
    seamark audit diff TIME TIME --lake DIR
    seamark audit totals --bootstrap HOST:PORT

Progress goes to standard error, what was found to standard output. An interruption leaves the lake as the last
finished step published it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.options.connection import Bootstrap, ConfigFile, Csv, Json, Options, client_config
from seamark.cli.options.plan_workflow import AllowOutsideLog, Apply, Clamp, PlanFile, carry_out
from seamark.cli.show.durations import pause_of, time_ms_of
from seamark.cli.show.rows import Column, chosen_form, write_rows
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.cli.audit.run import Audit

_Out = Annotated[str, typer.Option("--out", metavar="DIR", help="The lake directory; created if it does not exist.")]
_Report = Annotated[str, typer.Option("--report", metavar="FILE.html", help="Write an HTML report to this file.")]
_Source = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="topic|sampler|DIR",
        help="Read __consumer_offsets, sample the coordinators, or read log directories copied from a broker.",
    ),
]
_Follow = Annotated[bool, typer.Option("--follow", help="Keep running until Ctrl-C and update lake and report.")]
_Every = Annotated[str, typer.Option("--every", metavar="30s", help="Update interval with --follow.")]
_Rules = Annotated[
    list[str],
    typer.Option("--rule", metavar="NAME=NUMBER", help="A parameter of the finding rules; may be repeated."),
]
_Lake = Annotated[str, typer.Option("--lake", "--out", metavar="DIR", help="The lake directory.")]
_Groups = Annotated[list[str], typer.Option("--group", metavar="GROUP", help="Only this group; may be repeated.")]
_Top = Annotated[
    int, typer.Option("--top", metavar="N", min=0, help="Show only the N groups that commit most; 0 for all.")
]
_Time = Annotated[
    str, typer.Argument(metavar="TIME", help="For example 2026-11-15T08:00:00Z; UTC if no zone is given.")
]

_OFFSETS = (
    Column("GROUP", "group", may_shrink=True),
    Column("TOPIC", "topic", may_shrink=True),
    Column("PARTITION", "partition", is_number=True),
    Column("OFFSET", "offset", is_number=True),
    Column("COMMITTED-AT", "committed_at"),
    Column("METADATA", "metadata", may_shrink=True),
)
_CHANGES = (
    Column("GROUP", "group", may_shrink=True),
    Column("TOPIC", "topic", may_shrink=True),
    Column("PARTITION", "partition", is_number=True),
    Column("BEFORE", "before", is_number=True),
    Column("AFTER", "after", is_number=True),
    Column("CHANGE", "change", is_number=True),
    Column("WHAT", "what"),
    Column("COMMITTED-AT", "committed_at"),
)
_TOTALS = (
    Column("GROUP", "group", may_shrink=True),
    Column("COMMITS", "commits", is_number=True),
    Column("TOMBSTONES", "tombstones", is_number=True),
    Column("GENERATIONS", "generations", is_number=True),
    Column("OTHERS", "others", is_number=True),
    Column("LAST-RECORD", "last_record"),
)

audit_app = typer.Typer(
    help="Keep the history of committed offsets in a lake, find problems, look up old offsets.",
    invoke_without_command=True,
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(audit_app, name="audit")


@audit_app.callback()
def audit(
    context: typer.Context,
    out: _Out = "",
    report: _Report = "",
    source: _Source = "topic",
    follow: _Follow = False,
    every: _Every = "30s",
    rule: _Rules = [],  # noqa: B006 - typer wants the default itself
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Update the lake, find problems, and write the report."""
    if context.invoked_subcommand is not None:
        context.obj = out
        return
    from seamark.cli.audit.run import Audit

    if not out:
        raise UsageError("--out DIR is required: the lake directory, created if it does not exist")
    if Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"--out {out}: not a directory")
    is_copied = source not in ("topic", "sampler")
    if is_copied and follow:
        raise UsageError("--follow cannot be used with log directories: copied logs do not change")
    pause = pause_of(every)
    if pause <= 0:
        raise UsageError("--every must be greater than 0")
    chosen: Audit = Audit(
        lake=out,
        source=source,
        config={} if is_copied and not bootstrap else client_config(bootstrap, config, option),
        rules=_parameters(rule),
        report=report,
    )
    if follow:
        chosen.follow(pause, as_json=as_json)
    else:
        chosen.once(as_json=as_json)


@audit_app.command("as-of")
def as_of(
    context: typer.Context,
    time: _Time,
    lake: _Lake = "",
    group: _Groups = [],  # noqa: B006
    plan: PlanFile = "",
    apply: Apply = False,
    clamp: Clamp = False,
    outside: AllowOutsideLog = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Show the offsets that were committed at a given time.

    With --plan FILE or --apply, restore them.
    """
    at_ms = time_ms_of(time)
    directory = _directory(context, lake)
    from seamark.cli.audit.spark import require_spark, spark_session

    require_spark()
    if plan or apply:
        from seamark.cli.audit.lake import check_known, offsets_in_lake, plan_to_go_there
        from seamark.client import Admin

        settings = client_config(bootstrap, config, option)
        remembered = offsets_in_lake(directory, at_ms, group or None)
        check_known(group, remembered, time)
        with Admin(settings) as admin:
            made, state = plan_to_go_there(admin, time, at_ms, remembered, clamp=clamp, outside=outside)
            carry_out(
                admin,
                made,
                state,
                plan_file=plan,
                is_to_apply=apply,
                form=chosen_form(as_json),
                allow_outside_log=outside,
            )
        return
    from seamark.spark.lake import Lake
    from seamark.spark.lake import as_of as offsets_as_of

    opened = Lake.open(directory)
    with spark_session("seamark audit as-of", quick=True) as spark:
        offsets = offsets_as_of(spark, opened, at_ms, group or None).orderBy("group", "topic", "partition")
        rows = (
            (
                row["group"],
                row["topic"],
                row["partition"],
                row["offset"],
                _time_text(row["ms"]),
                row["metadata"] or None,
            )
            for row in offsets.selectExpr("*", "unix_millis(commit_time) as ms").toLocalIterator()
        )
        write_rows(_OFFSETS, rows, chosen_form(as_json, as_csv))


@audit_app.command("diff")
def diff(
    context: typer.Context,
    before: _Time,
    after: _Time,
    lake: _Lake = "",
    group: _Groups = [],  # noqa: B006
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Show what changed between two times."""
    times = time_ms_of(before), time_ms_of(after)
    directory = _directory(context, lake)
    from seamark.cli.audit.spark import require_spark, spark_session

    require_spark()
    from seamark.spark.lake import Lake
    from seamark.spark.lake import diff as offsets_diff

    opened = Lake.open(directory)
    with spark_session("seamark audit diff", quick=True) as spark:
        changes = offsets_diff(spark, opened, *times, group or None).orderBy("group", "topic", "partition")
        rows = (
            (
                row["group"], row["topic"], row["partition"], row["before"], row["after"], row["change"], row["what"],
                _time_text(row["ms"]),
            )
            for row in changes.selectExpr("*", "unix_millis(commit_time) as ms").toLocalIterator()
        )  # fmt: skip
        write_rows(_CHANGES, rows, chosen_form(as_json, as_csv))


@audit_app.command("totals")
def totals(
    top: _Top = 0,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Count commits per group, without a lake.

    It reads the whole offsets topic. Records without a group are counted under an empty name.
    """
    settings = client_config(bootstrap, config, option)
    from seamark.cli.audit.spark import require_packages

    require_packages()
    from seamark.spark.lake import totals as counted

    # Starting Spark would take longer than counting millions of records here.
    table = counted(settings).sort_by([("commits", "descending"), ("group", "ascending")])
    rows = (
        (
            row["group"], row["commits"], row["tombstones"], row["generations"], row["others"],
            _time_text(row["last_ms"]),
        )
        for row in table.slice(0, top or table.num_rows).to_pylist()
    )  # fmt: skip
    write_rows(_TOTALS, rows, chosen_form(as_json, as_csv))


def _directory(context: typer.Context, lake: str) -> str:
    """The lake of a subcommand, named after it or before it."""
    if directory := lake or context.obj:
        return str(directory)
    raise UsageError("--lake DIR is required")


def _parameters(texts: Iterable[str]) -> dict[str, str]:
    chosen = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark:
            raise UsageError(f"--rule {text}: must be NAME=NUMBER")
        chosen[name.strip()] = value.strip()
    return chosen


def _time_text(at_ms: int | None) -> str | None:
    from seamark.plans.plan_text import time_text

    return None if at_ms is None else time_text(at_ms)
