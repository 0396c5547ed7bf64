"""``seamark lag``: how far behind groups are, in records and in time, once or again and again.

Exit code 3 says that some group is further behind than ``--fail-over`` allows: a check for cron and for pipelines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seamark.cli.connection_options import Bootstrap, ConfigFile, Json, Options, client_config
from seamark.cli.durations import duration_text, seconds_of
from seamark.cli.groups_view_commands import Csv, Groups, absent_sentence
from seamark.cli.rows import Column, Form, chosen_form, write_rows
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.client.admin import Admin
    from seamark.monitor.lag_report import LagRow

_Watch = Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")]
_Every = Annotated[str, typer.Option("--every", metavar="5s", help="How often to look with --watch.")]
_FailOver = Annotated[
    str, typer.Option("--fail-over", metavar="10m|1000", help="End with code 3 if a group is further behind.")
]
_Partitions = Annotated[bool, typer.Option("--partitions", help="A row per partition instead of per topic.")]
_Reset = Annotated[
    str,
    typer.Option("--reset", metavar="earliest|latest", help="Where a partition without a commit is counted from."),
]

_COLUMNS = (
    Column("GROUP", "group", may_shrink=True),
    Column("TOPIC", "topic", may_shrink=True),
    Column("PARTITION", "partition", is_number=True),
    Column("LAG", "lag", is_number=True),
    Column("BEHIND", "behind", is_number=True),
    Column("±", "error", is_number=True),
    Column("CATCHES-UP", "catches_up", is_number=True),
    Column("STATUS", "status"),
    Column("REMARK", "remark", is_sentence=True),
)
_CLEAR = "\x1b[H\x1b[2J"


def add_to(app: typer.Typer) -> None:
    app.command("lag")(lag)


def lag(
    names: Groups = None,
    watch: _Watch = False,
    every: _Every = "5s",
    fail_over: _FailOver = "",
    partitions: _Partitions = False,
    reset: _Reset = "earliest",
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """How far behind groups are, in records and in time."""
    from seamark.client import Admin
    from seamark.monitor.watching import Watching

    if reset not in ("earliest", "latest"):
        raise UsageError(f"--reset {reset!r} is neither earliest nor latest")
    limit = _limit(fail_over)
    pause = seconds_of(every)
    form = chosen_form(as_json, as_csv)
    watching = Watching()
    with Admin(client_config(bootstrap, config, option)) as admin:
        while True:
            started = time.monotonic()
            rows, complaints = _look(admin, names, reset, partitions, watching)
            if watch and form == "table" and sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            _write(rows, form, is_raw=form != "table")
            for complaint in complaints:
                typer.echo(f"seamark: {complaint}", err=True)
            over = [row for row, *_ in rows if _is_over(row, limit)]
            for row in over:
                typer.echo(f"seamark: group {row.group!r} is too far behind in topic {row.topic!r}", err=True)
            if over:
                raise typer.Exit(3)
            if not watch:
                break
            time.sleep(max(0.0, pause - (time.monotonic() - started)))
    if complaints:
        raise typer.Exit(1)


def _look(
    admin: Admin, names: list[str] | None, reset: str, by_partition: bool, watching: Any
) -> tuple[list[tuple[LagRow, float | None, str | None]], list[str]]:
    from seamark.monitor.lag_report import group_ages, lag_rows
    from seamark.monitor.scan import scan

    found = scan(admin, names or None, reset=reset)
    now_ms = int(time.time() * 1000)
    times = group_ages(admin, found, now_ms, reset=reset)
    watching.add(found, now_ms)
    rows = [
        (row, *watching.outlook(row.group, row.topic, row.partition))
        for row in lag_rows(found, times, by_partition=by_partition)
    ]
    complaints = [absent_sentence(admin, name, error) for name, error in sorted(found.failed.items())]
    return rows, complaints


def _write(rows: Sequence[tuple[LagRow, float | None, str | None]], form: Form, *, is_raw: bool) -> None:
    """Numbers as they are for programs, as people read them on the screen."""

    def shown(seconds: float | None) -> Any:
        return seconds if is_raw and seconds != float("inf") else duration_text(seconds)

    write_rows(
        _COLUMNS,
        (
            (
                row.group, row.topic, row.partition, row.records,
                shown(row.time.seconds) if row.time else None, shown(row.time.error) if row.time else None,
                shown(catches_up), status, row.remark,
            )
            for row, catches_up, status in rows
        ),
        form,
    )  # fmt: skip


def _limit(text: str) -> tuple[int | None, float | None]:
    """Records or seconds, whichever was written."""
    if not text:
        return None, None
    return (int(text), None) if text.isdecimal() else (None, seconds_of(text))


def _is_over(row: LagRow, limit: tuple[int | None, float | None]) -> bool:
    records, seconds = limit
    if records is not None:
        return row.records is not None and row.records > records
    return seconds is not None and row.time is not None and row.time.seconds > seconds
