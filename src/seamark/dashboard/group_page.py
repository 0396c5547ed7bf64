"""One group: how it stands now, its lag over time, what is wrong, who reads what, and what happened."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.counts import counted
from seamark.dashboard.board import Board, GroupRow, findings, is_blocked
from seamark.dashboard.charts import lag_chart, short_count
from seamark.dashboard.groups_page import pages
from seamark.dashboard.layout import Context, freshness, hidden, live, page, status_mark, table
from seamark.dashboard.listing import Query, paged
from seamark.dashboard.markup import Child, Markup, joined, tag
from seamark.dashboard.sight import NotFound
from seamark.dashboard.wording import NOTHING, behind_text, catches_up_text, count_text, name_text, time_text
from seamark.errors import UsageError
from seamark.monitor.lag_report import remark_of
from seamark.monitor.scan import GroupView
from seamark.readable_text import readable
from seamark.rules.status import Status

RANGES = {"1h": 3600.0, "6h": 6 * 3600.0, "1d": 86_400.0, "14d": 14 * 86_400.0}
# What is only read by people is not worth more rows than people read.
_MOST_MEMBERS = 200
_MOST_FINDINGS = 20


def group_page(context: Context, name: str, query: Query, span: str, what: str) -> str:
    """``span`` is one of RANGES, ``what`` records or time; UsageError otherwise, NotFound for an unknown group."""
    board = context.here.board
    if span not in RANGES:
        raise UsageError(f"range={span!r} is not one of {', '.join(RANGES)}")
    if what not in ("records", "time"):
        raise UsageError(f"show={what!r} is neither records nor time")
    if board is None:
        raise NotFound("this cluster has not been polled yet: try again in a moment")
    row = context.here.group_row(board, name)
    view = board.views[name]
    action = None
    if context.allow_changes:
        action = tag("a", "Reset offsets …", href=context.url("reset", id=name), class_="button")
    return page(
        context,
        f"Group {name}",
        tag("p", tag("a", "Groups", href=context.url("groups")), " › group", class_="quiet"),
        tag("div", tag("h1", name or "(no name)"), action, class_="title"),
        freshness(context),
        live("summary", _tiles(context, board, row, view), class_="tiles"),
        live("findings", _unread(view), _findings(context, board, name), _blocked(view)),
        live("chart", _chart(context, name, span, what), kind="section"),
        live("partitions", _partitions(context, board, view, query), kind="section"),
        live("members", _members(view), kind="section"),
        live("events", _events(context, name), kind="section"),
        section="groups",
    )


def _tiles(context: Context, board: Board, row: GroupRow, view: GroupView) -> Iterator[Markup]:
    description = view.description
    states = [board.states[row.name, partition.partition].catches_up for partition in view.partitions]
    known = [seconds for seconds in states if seconds is not None]
    catches_up = max(known) if known and len(known) == len(states) else None
    has_members = description.is_active
    for title, value in (
        ("Status", status_mark(row.status)),
        ("Lag", count_text(row.lag)),
        *([("Lost", count_text(row.lost))] if row.lost else []),
        *([("Unfinished", count_text(row.unfinished))] if row.unfinished != row.lag else []),
        ("Behind", behind_text(row.behind, context.wording)),
        ("Catches up in", catches_up_text(catches_up, row.lag, context.wording, has_members=has_members)),
        ("State", description.state),
        ("Members", count_text(row.members)),
        ("Type", " ".join(part for part in (description.type, description.assignor) if part)),
    ):
        yield tag("div", tag("span", title, class_="quiet"), tag("strong", value))
    address = description.coordinator.address
    yield tag(
        "div", tag("span", "Coordinator", class_="quiet"), tag("strong", address, class_="address"), class_="wide",
        title=address,
    )  # fmt: skip


def _unread(view: GroupView) -> Markup | None:
    return tag("p", view.error, class_="problem") if view.error else None


def _findings(context: Context, board: Board, name: str) -> Markup | None:
    partitions_of: dict[tuple[Status, str], list[str]] = {}
    for partition, status, text in findings(board, name):
        partitions_of.setdefault((status, text), []).append(str(partition))
    if not partitions_of:
        return None
    items = [
        tag("li", status_mark(status), " ", tag("b", _some(names)), f": {text}")
        for (status, text), names in list(partitions_of.items())[:_MOST_FINDINGS]
    ]
    more = len(partitions_of) - len(items)
    return tag(
        "section",
        tag("h2", "Findings"),
        tag("ul", items, tag("li", f"and {more} more") if more else None),
        _acknowledge(context, name) if any(status is Status.REWOUND for status, _ in partitions_of) else None,
        class_="findings",
    )


def _acknowledge(context: Context, name: str) -> Markup:
    return tag(
        "form",
        hidden(context, id=name),
        tag("button", "Acknowledge the rewind"),
        tag(
            "p",
            "If the rewind was intended: it is then no longer shown as a problem, until offsets go back again.",
            class_="quiet",
        ),
        method="post",
        action=context.url("acknowledge"),
    )


def _blocked(view: GroupView) -> Markup | None:
    """Records that a parallel consumer has not finished although it is done with later ones."""
    items = [
        tag(
            "li",
            tag("b", str(partition.partition)),
            " waits for the record at offset ",
            tag("b", count_text(partition.committed.offset)),
            f"; {counted(ahead, 'later record')} {'is' if ahead == 1 else 'are'} already done",
        )
        for partition in view.partitions
        for ahead in (partition.lag.done_ahead,)
        if is_blocked(partition) and partition.committed is not None
    ]
    return tag("section", tag("h2", "Blocked records"), tag("ul", items[:_MOST_FINDINGS])) if items else None


def _chart(context: Context, name: str, span: str, what: str) -> Markup:
    points = context.here.series(name, RANGES[span])

    def link(title: str, new_span: str, new_what: str) -> Markup:
        is_here = (new_span, new_what) == (span, what)
        return tag(
            "a",
            title,
            href=context.url("group", id=name, range=new_span, show=new_what),
            aria_current="true" if is_here else None,
        )

    if what == "records":
        drawn = lag_chart(points, "Lag in records", lambda point: point.lag, short_count)
    else:
        drawn = lag_chart(
            points, "Time behind", lambda point: point.behind, lambda number: context.wording.duration(number) or "0s"
        )
    return joined(
        tag(
            "div",
            tag("h2", "Lag over time"),
            tag(
                "nav",
                [link(title, span, choice) for choice, title in (("records", "Records"), ("time", "Time"))],
                aria_label="Chart",
                class_="choice",
            ),
            tag("nav", [link(period, period, what) for period in RANGES], aria_label="Period", class_="choice"),
            class_="title",
        ),
        drawn,
    )


def _partitions(context: Context, board: Board, view: GroupView, query: Query) -> Markup:
    chosen = paged(view.partitions, query)
    name = view.group_id
    # What the lag hides has columns where there is something in them, on whichever page of the list that is.
    has_lost = view.lost > 0
    has_unfinished = any(
        partition.lag.unfinished != partition.lag.records and not partition.lag.beyond for partition in view.partitions
    )
    columns = [
        ("Partition", "name"),
        ("Status", ""),
        ("Committed", "number"),
        ("Log end", "number"),
        ("Lag", "number"),
        *([("Lost", "number")] if has_lost else []),
        *([("Unfinished", "number")] if has_unfinished else []),
        ("Behind", "number"),
        ("Catches up in", "number"),
        ("Owner", "text"),
        ("Remark", "remark"),
    ]
    rows: list[list[Child]] = []
    for partition in chosen.rows:
        state = board.states[name, partition.partition]
        rows.append(
            [
                tag(
                    "a", str(partition.partition), href=context.url("topic", id=partition.partition.topic), class_="row"
                ),
                status_mark(state.status),
                count_text(partition.committed.offset if partition.committed else None),
                count_text(partition.bounds.log_end),
                count_text(partition.lag.records),
                *([count_text(partition.lag.lost)] if has_lost else []),
                *([count_text(partition.lag.unfinished)] if has_unfinished else []),
                behind_text(board.look.times.get((name, partition.partition)), context.wording),
                catches_up_text(
                    state.catches_up,
                    partition.lag.records if partition.committed else None,
                    context.wording,
                    has_members=view.description.is_active,
                ),
                name_text(partition.owner.client_id or partition.owner.member_id) if partition.owner else NOTHING,
                remark_of(partition),
            ]
        )
    shown = table(
        columns, rows, empty="The group has no committed offsets and no assigned partitions.", caption="Partitions"
    )
    return joined(tag("h2", "Partitions"), shown, pages(context, "group", query, chosen, "partition", id=name))


def _members(view: GroupView) -> Markup:
    members = view.description.members
    columns = [("Member", "name"), ("Instance", "text"), ("Host", ""), ("Partitions", "number"), ("Reads", "remark")]
    rows: list[list[Child]] = [
        [
            tag("span", name_text(member.client_id or member.member_id), title=readable(name_text(member.member_id))),
            name_text(member.instance_id or NOTHING),
            tag("span", member.host.removeprefix("/"), class_="address"),
            count_text(len(member.assignment)),
            _some([str(partition) for partition in member.assignment]),
        ]
        for member in members[:_MOST_MEMBERS]
    ]
    more = len(members) - _MOST_MEMBERS
    return joined(
        tag("h2", "Members"),
        table(columns, rows, empty="The group has no members.", caption="Members"),
        tag("p", f"and {more} more", class_="quiet") if more > 0 else None,
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _events(context: Context, name: str) -> Markup:
    columns = [("Time", ""), ("What", ""), ("Details", "remark")]
    rows: list[list[Child]] = [[time_text(event.at_ms), event.kind, event.text] for event in context.here.events(name)]
    empty = "No rebalances, rewinds or status changes yet."
    return joined(tag("h2", "What happened"), table(columns, rows, empty=empty, caption="What happened, latest first"))
