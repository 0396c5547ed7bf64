"""``seamark lag``: how far behind groups are, in records and in time, once or again and again.

Exit code 3 says that some group is further behind than ``--fail-over`` allows: a check for cron and for pipelines. The
limit is compared with LAG, or with BEHIND for a duration. Lost records and an offset beyond the log's end are over any
limit, a partition without a commit is counted from its log's start unless ``--reset`` says otherwise, and one that does
not answer ends the check with code 1: nobody knows that it is within the limit. So does, with or without a limit, one
group whose committed offsets cannot be read.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seamark.cli.options.connection import Bootstrap, ConfigFile, Csv, Json, Options, client_config
from seamark.cli.options.names import GroupsOrAll, absent_sentence
from seamark.cli.show.durations import count_of, duration_text, pause_of, seconds_of
from seamark.cli.show.lag_columns import LAG, LAG_PARTS, REMARK, LagParts, Note, write_lags
from seamark.cli.show.rows import Column, Form, chosen_form
from seamark.cli.show.terminal_text import say
from seamark.counts import counted
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.monitor.group_ages import GroupAges
    from seamark.monitor.lag_report import LagRow
    from seamark.monitor.scan import Scan
    from seamark.monitor.watching import Watching

    # A row with the seconds until it has caught up, and its status.
    _Row = tuple[LagRow, float | None, str | None]

_Watch = Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")]
_Every = Annotated[str, typer.Option("--every", metavar="5s", help="Refresh interval with --watch.")]
_FailOver = Annotated[
    str | None,
    typer.Option(
        "--fail-over", metavar="10m|1000", help="Exit with code 3 if a group is further behind, or has lost records."
    ),
]
_Partitions = Annotated[bool, typer.Option("--partitions", help="One row per partition instead of per topic.")]
_Reset = Annotated[
    str,
    typer.Option(
        "--reset",
        metavar="earliest|latest",
        help="Where the lag of a partition without a commit starts; default: unknown, or earliest with --fail-over.",
    ),
]

_COLUMNS = (
    Column("GROUP", "group", may_shrink=True),
    Column("TOPIC", "topic", may_shrink=True),
    Column("PARTITION", "partition", is_number=True),
    LAG,
    *LAG_PARTS,
    Column("BEHIND", "behind", is_number=True),
    Column("BEHIND-METHOD", "behind_method", in_table=False),
    Column("CATCHES-UP", "catches_up", is_number=True),
    Column("STATUS", "status"),
    REMARK,
)
_CLEAR = "\x1b[H\x1b[2J"


def add_to(app: typer.Typer) -> None:
    app.command("lag")(lag)


def lag(
    names: GroupsOrAll = None,
    watch: _Watch = False,
    every: _Every = "5s",
    fail_over: _FailOver = None,
    partitions: _Partitions = False,
    reset: _Reset = "",
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Show how far groups are behind, in records and time.

    \b
    Examples:
      seamark lag
      seamark lag billing --partitions --watch
      seamark lag billing --fail-over 10m   # exit code 3 if over 10 minutes behind
    """
    from seamark.client import Admin
    from seamark.monitor.group_ages import GroupAges
    from seamark.monitor.scan import scan
    from seamark.monitor.watching import Watching

    if reset not in ("", "earliest", "latest"):
        raise UsageError(f"--reset {reset!r} is neither earliest nor latest")
    limit = _limit(fail_over)
    counted_from = reset or ("earliest" if fail_over is not None else None)
    pause = pause_of(every)
    form = chosen_form(as_json, as_csv)
    watching = Watching()
    with Admin(client_config(bootstrap, config, option)) as admin:
        ages = GroupAges(admin, reset=counted_from)
        while True:
            started = time.monotonic()
            scanned = scan(admin, names or None, reset=counted_from, whole_topics=True)
            rows = _rows(scanned, ages, watching, by_partition=partitions)
            if watch and form == "table" and sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            _write(rows, form)
            complaints = [absent_sentence(admin, name, error) for name, error in sorted(scanned.failed.items())]
            complaints += [f"group {view.group_id!r}: {view.error}" for view in scanned.groups if view.error]
            if fail_over is not None:
                complaints += _not_judged(scanned)
            for complaint in complaints:
                say(f"seamark: {complaint}")
            over = [sentence for row, *_ in rows for sentence in _over(row, limit)]
            for sentence in over:
                say(f"seamark: {sentence}")
            if over:
                raise typer.Exit(3)
            if not watch:
                break
            time.sleep(max(0.0, pause - (time.monotonic() - started)))
    if complaints:
        raise typer.Exit(1)


def _rows(scanned: Scan, ages: GroupAges, watching: Watching, *, by_partition: bool) -> list[_Row]:
    from seamark.monitor.lag_report import lag_rows

    times = ages.look(scanned, int(time.time() * 1000))
    watching.add(scanned, int(time.monotonic() * 1000))
    return [
        (row, *((None, None) if row.topic is None else watching.outlook(row.group, row.topic, row.partition)))
        for row in lag_rows(scanned, times, by_partition=by_partition)
    ]


def _write(rows: Sequence[_Row], form: Form) -> None:
    """Numbers as they are for programs, as people read them on the screen."""
    is_raw = form != "table"

    def shown(seconds: float | None) -> Any:
        return seconds if is_raw and seconds != float("inf") else duration_text(seconds)

    def behind(row: LagRow) -> Any:
        if row.time is None:
            return None
        return shown(row.time.seconds) if is_raw or row.time.is_exact else f"≥{shown(row.time.seconds)}"

    write_lags(
        _COLUMNS,
        (
            (
                row.group, row.topic, row.partition, *_parts(row), behind(row), row.time.method if row.time else None,
                shown(catches_up), status, row.remark,
            )
            for row, catches_up, status in rows
        ),
        (_parts(row) for row, *_ in rows),
        # A group without topics has its complaint.
        (Note(_subject(row), row.remark, bool(row.lost or row.beyond)) for row, *_ in rows if row.remark and row.topic),
        form,
    )  # fmt: skip


def _parts(row: LagRow) -> LagParts:
    return LagParts(row.records, row.lost, row.unfinished, row.beyond)


def _subject(row: LagRow) -> str:
    return f"group {row.group!r}, {row.topic}" + ("" if row.partition is None else f"-{row.partition}")


def _limit(text: str | None) -> tuple[int | None, float | None] | None:
    """Records or seconds, whichever was written; None without a limit."""
    if text is None:
        return None
    records = count_of(text)
    if records is not None:
        return records, None
    try:
        return None, seconds_of(text)
    except UsageError:
        raise UsageError(
            f"--fail-over {text!r}: must be a number of records >= 0, such as 1000, or a duration, such as 10m"
        ) from None


def _over(row: LagRow, limit: tuple[int | None, float | None] | None) -> Iterator[str]:
    """Why a row is over the limit, as sentences."""
    if limit is None:
        return
    records, seconds = limit
    where = f"group {row.group!r}"
    topic = f"topic {row.topic!r}" if row.partition is None else f"{row.topic}-{row.partition}"
    if row.beyond:
        yield f"{where} has committed {row.beyond} beyond the end of {topic}"
    if row.lost:
        yield f"{where} has lost {counted(row.lost, 'record')} of {topic}, deleted before being read"
    if (records is not None and row.records is not None and row.records > records) or (
        seconds is not None and row.time is not None and row.time.seconds > seconds
    ):
        yield f"{where} is too far behind in {topic}"


def _not_judged(scanned: Scan) -> list[str]:
    """Groups of which nobody knows whether they are within the limit."""
    return [
        f"group {view.group_id!r} cannot be checked: {view.partitions_unknown} of its partitions could not be read"
        for view in scanned.groups
        if view.partitions_unknown and not view.error
    ]
