"""``seamark groups list | describe | members``: where groups stand, as a table, JSON or CSV.

``describe`` has the columns and numbers of Kafka's own tool, so that what reads those reads these; what LAG hides comes
behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seamark.cli.options.connection import Bootstrap, ConfigFile, Csv, Json, Options, client_config
from seamark.cli.options.names import Groups, absent_sentence, group_names
from seamark.cli.show.lag_columns import LAG, LAG_PARTS, REMARK, LagParts, Note, write_lags
from seamark.cli.show.rows import Column, chosen_form, write_rows
from seamark.cli.show.terminal_text import say
from seamark.counts import counted, number_text
from seamark.errors import SeamarkError, UsageError

if TYPE_CHECKING:
    from seamark.monitor.scan import GroupView, PartitionView

_All = Annotated[bool, typer.Option("--all", help="All groups of the cluster.")]
_State = Annotated[
    list[str], typer.Option("--state", metavar="STATE", help="Only groups in this state; may be repeated.")
]
_Type = Annotated[
    list[str], typer.Option("--type", metavar="TYPE", help="Only groups of this type, such as classic or consumer.")
]
_More = Annotated[bool, typer.Option("--more", help="Also show state, assignor, log start and records done ahead.")]
_Sort = Annotated[str, typer.Option("--sort", metavar="name|state|lag|members", help="Sort order.")]

_LIST = (
    Column("GROUP", "group", may_shrink=True),
    Column("TYPE", "type"),
    Column("STATE", "state"),
    Column("ASSIGNOR", "assignor", may_shrink=True),
    Column("MEMBERS", "members", is_number=True),
    Column("PARTITIONS", "partitions", is_number=True),
    LAG,
    *LAG_PARTS,
    REMARK,
)
_DESCRIBE = (
    Column("GROUP", "group", may_shrink=True),
    Column("TOPIC", "topic", may_shrink=True),
    Column("PARTITION", "partition", is_number=True),
    Column("CURRENT-OFFSET", "current_offset", is_number=True),
    Column("LOG-END-OFFSET", "log_end_offset", is_number=True),
    LAG,
    Column("CONSUMER-ID", "consumer_id", may_shrink=True),
    Column("HOST", "host", may_shrink=True),
    Column("CLIENT-ID", "client_id", may_shrink=True),
    # Beside Kafka's nine columns there is no room for these on a narrow screen; the notes say it then.
    *(replace(column, may_go=True) for column in LAG_PARTS),
)
_DESCRIBE_MORE = (
    Column("STATE", "state"),
    Column("ASSIGNOR", "assignor", may_shrink=True),
    Column("LOG-START", "log_start_offset", is_number=True),
    Column("DONE-AHEAD", "done_ahead", is_number=True),
    REMARK,
)
_MEMBERS = (
    Column("GROUP", "group", may_shrink=True),
    Column("MEMBER", "member", may_shrink=True),
    Column("INSTANCE", "instance", may_shrink=True),
    Column("CLIENT-ID", "client_id", may_shrink=True),
    Column("HOST", "host"),
    Column("PARTITIONS", "partitions", is_number=True),
    Column("ASSIGNMENT", "assignment", may_shrink=True),
)


def add_to(groups: typer.Typer) -> None:
    groups.command("list")(list_groups)
    groups.command("describe")(describe)
    groups.command("members")(members)


def list_groups(
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    state: _State = [],  # noqa: B006
    type_: _Type = [],  # noqa: B006
    sort: _Sort = "name",
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """List groups with state and lag."""
    from seamark.client import Admin
    from seamark.monitor.lag_report import group_remark
    from seamark.monitor.scan import scan

    keys: dict[str, Any] = {
        "name": lambda row: row[0], "state": lambda row: (row[2], row[0]),
        "lag": lambda row: (-(row[6] or 0), row[0]), "members": lambda row: (-row[4], row[0]),
    }  # fmt: skip
    if sort not in keys:
        raise UsageError(f"--sort {sort!r} is not one of {', '.join(keys)}")
    with Admin(client_config(bootstrap, config, option)) as admin:
        names = [listing.group_id for listing in admin.list_groups(states=state, types=type_)]
        scanned = scan(admin, names)
    rows = sorted((_list_row(view) for view in scanned.groups), key=keys[sort])
    rows += [
        (name, None, None, None, 0, 0, None, None, None, None, str(error))
        for name, error in sorted(scanned.failed.items())
    ]
    notes = [Note(f"group {name!r}", str(error), True) for name, error in sorted(scanned.failed.items())]
    notes += [
        Note(f"group {view.group_id!r}", remark, bool(view.lost or view.beyond or view.error))
        for view in scanned.groups
        if (remark := group_remark(view))
    ]
    write_lags(_LIST, rows, map(_group_parts, scanned.groups), notes, chosen_form(as_json, as_csv))


def _group_parts(view: GroupView) -> LagParts:
    return LagParts(view.records_behind, view.lost, view.unfinished, view.beyond)


def _list_row(view: GroupView) -> tuple[Any, ...]:
    from seamark.monitor.lag_report import group_remark

    description = view.description
    return (
        view.group_id, description.type, description.state, description.assignor or None, len(description.members),
        len(view.partitions), *_group_parts(view), group_remark(view),
    )  # fmt: skip


def describe(
    names: Groups = None,
    everything: _All = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    more: _More = False,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Show partitions of groups: committed offset, log end, lag, owner."""
    from seamark.client import Admin
    from seamark.monitor.scan import scan

    if bool(names) == everything:
        raise UsageError("name the groups to describe, or give --all")
    with Admin(client_config(bootstrap, config, option)) as admin:
        scanned = scan(admin, names or None)
        failed = {view.group_id: SeamarkError(view.error) for view in scanned.groups if view.error}
        failed |= scanned.failed
        complaints = [absent_sentence(admin, name, error) for name, error in sorted(failed.items())]
    columns = (*_DESCRIBE, *_DESCRIBE_MORE) if more else _DESCRIBE
    rows = (row for view in scanned.groups for row in _describe_rows(view, more))
    form = chosen_form(as_json, as_csv)
    if form != "table" or any(view.partitions for view in scanned.groups):
        parts = (_parts(partition) for view in scanned.groups for partition in view.partitions)
        write_lags(columns, rows, parts, _describe_notes(scanned.groups), form)
    for view in scanned.groups:
        if not view.partitions and not view.error:
            say(f"group {view.group_id!r} has no committed offsets and no assigned partitions")
    for complaint in complaints:
        say(f"seamark: {complaint}")
    if complaints:
        raise typer.Exit(1)


def _describe_rows(view: GroupView, more: bool) -> Iterator[tuple[Any, ...]]:
    from seamark.monitor.lag_report import remark_of

    for partition in view.partitions:
        owner = partition.owner
        lag, *parts = _parts(partition)
        row = (
            view.group_id, *partition.partition,
            partition.committed.offset if partition.committed else None, partition.bounds.log_end,
            lag, *((owner.member_id, owner.host, owner.client_id) if owner else (None, None, None)), *parts,
        )  # fmt: skip
        yield (*row, *_more_of(view, partition, remark_of(partition))) if more else row


def _more_of(view: GroupView, partition: PartitionView, remark: str) -> tuple[Any, ...]:
    description = view.description
    return (
        description.state,
        description.assignor or None,
        partition.bounds.log_start,
        partition.lag.done_ahead or None,
        remark,
    )


def _parts(partition: PartitionView) -> LagParts:
    return LagParts(partition.lag.records, partition.lag.lost, partition.lag.unfinished, partition.lag.beyond)


def _describe_notes(groups: Iterable[GroupView]) -> Iterator[Note]:
    """What LAG hides; that nothing is committed can be seen."""
    from seamark.monitor.lag_report import silence_text
    from seamark.rules.lag import loss_text

    for view in groups:
        if view.error:
            # It is said once, not for each partition.
            continue
        for partition in view.partitions:
            if loss := loss_text(partition.lag):
                yield Note(f"group {view.group_id!r}, {partition.partition}", loss, True)
            elif partition.bounds.error:
                yield Note(f"group {view.group_id!r}, {partition.partition}", silence_text(partition.bounds), False)
            elif ahead := partition.lag.done_ahead:
                left = number_text(partition.lag.unfinished or 0)
                text = f"{counted(ahead, 'record')} of the lag done ahead, {left} unfinished"
                yield Note(f"group {view.group_id!r}, {partition.partition}", text, False)


def members(
    names: Annotated[list[str], typer.Argument(metavar="GROUP", help="Names of groups.", autocompletion=group_names)],
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Show the members of groups and their partitions."""
    from seamark.client import Admin

    with Admin(client_config(bootstrap, config, option)) as admin:
        described = admin.describe_groups(names)
        complaints = [absent_sentence(admin, name, error) for name, error in sorted(described.errors.items())]
    rows = (
        (
            name, member.member_id, member.instance_id, member.client_id, member.host, len(member.assignment),
            " ".join(map(str, member.assignment)),
        )
        for name, group in sorted(described.items())
        for member in group.members
    )  # fmt: skip
    write_rows(_MEMBERS, rows, chosen_form(as_json, as_csv))
    for complaint in complaints:
        say(f"seamark: {complaint}")
    if complaints:
        raise typer.Exit(1)
