"""The list of groups: status, lag in records and time, a small graph of the last hour; filter, order and pages."""

from __future__ import annotations

from typing import Any

from seamark.counts import counted
from seamark.dashboard.board import Board, GroupRow
from seamark.dashboard.charts import sparkline
from seamark.dashboard.layout import Context, filter_field, freshness, live, page, query_text, status_mark, table
from seamark.dashboard.listing import ORDERS, SIZES, Chosen, Query, choose_groups
from seamark.dashboard.markup import Child, Markup, joined, tag
from seamark.dashboard.wording import behind_text, count_text, name_text
from seamark.rules.status import Status

SPARK_S = 3600.0
_TITLES = {
    "status": "worst first",
    "name": "name",
    "lag": "most lag",
    "behind": "furthest behind",
    "members": "most members",
    "state": "state",
}


def groups_page(context: Context, query: Query) -> str:
    board = context.here.board
    if board is None:
        content: Markup = live("groups", tag("p", "This cluster has not been polled yet.", class_="quiet"))
    else:
        content = _groups(context, board, query)
    return page(
        context,
        f"Groups of {context.here.name}",
        tag("h1", "Groups"),
        freshness(context),
        _filter(context, query),
        content,
        section="groups",
    )


def _groups(context: Context, board: Board, query: Query) -> Markup:
    chosen = choose_groups(board.rows, query)
    sparks = context.here.sparks([row.name for row in chosen.rows], SPARK_S)
    has_unfinished = any(row.unfinished != row.lag for row in board.rows)
    columns = [
        ("Group", "name"),
        ("Status", ""),
        ("Lag", "number"),
        *([("Unfinished", "number")] if has_unfinished else []),
        ("Trend", "graph"),
        ("Behind", "number"),
        ("State", ""),
        ("Members", "number"),
        ("Partitions", "number"),
        ("Remark", "remark"),
    ]
    rows = [_row(context, row, sparks.get(row.name, []), has_unfinished) for row in chosen.rows]
    empty = "No group matches the filter." if board.rows else "The cluster has no groups."
    return live(
        "groups",
        _counts(context, board, query),
        table(columns, rows, empty=empty, caption=f"Groups, {_TITLES[query.order]}"),
        pages(context, "groups", query, chosen, "group"),
    )


def _row(context: Context, row: GroupRow, values: list[int | None], has_unfinished: bool) -> list[Child]:
    remarks = [row.remark] if row.remark else []
    if row.blocked:
        remarks.append(f"{counted(row.blocked, 'partition')} blocked by a record")
    return [
        tag("a", name_text(row.name) or "(no name)", href=context.url("group", id=row.name), class_="row"),
        status_mark(row.status),
        count_text(row.lag),
        *([count_text(row.unfinished)] if has_unfinished else []),
        sparkline(values),
        behind_text(row.behind, context.wording),
        row.state,
        count_text(row.members),
        count_text(row.partitions),
        "; ".join(remarks),
    ]


def _counts(context: Context, board: Board, query: Query) -> Markup:
    """How many groups there are in each state, each a link to them."""
    links = [
        tag(
            "a",
            status_mark(status),
            " ",
            tag("b", count_text(board.counts[status])),
            href=context.url(
                "groups", **query.address(status="" if query.status == status.value else status.value, page=1)
            ),
            aria_current="true" if query.status == status.value else None,
        )
        for status in reversed(Status)
        if board.counts.get(status)
    ]
    return tag("nav", links, class_="counts", aria_label="Groups by status")


def _filter(context: Context, query: Query) -> Markup:
    def choices(name: str, options: list[tuple[Any, str]], chosen: Any) -> Markup:
        return tag(
            "select",
            [tag("option", title, value=value, selected=value == chosen) for value, title in options],
            name=name,
        )

    return tag(
        "form",
        filter_field(query.text),
        tag("label", "Order ", choices("sort", [(order, _TITLES[order]) for order in ORDERS], query.order)),
        tag("label", "Rows ", choices("size", [(size, str(size)) for size in SIZES], query.size)),
        tag("input", type="hidden", name="status", value=query.status) if query.status else None,
        tag("button", "Show"),
        method="get",
        action=context.url("groups"),
        class_="filter",
        role="search",
    )


def pages(context: Context, name: str, query: Query, chosen: Chosen[Any], thing: str, **fixed: object) -> Markup:
    """Links to the other pages of a list."""

    def link(title: str, number: int, rel: str) -> Markup:
        if not 1 <= number <= chosen.pages or number == chosen.page:
            return tag("span", title, class_="quiet")
        address = context.url(name) + query_text({**fixed, **query.address(page=number)})
        return tag("a", title, href=address, rel=rel)

    total = counted(chosen.total, thing)
    if chosen.pages == 1:
        return tag("p", total, class_="quiet")
    return tag(
        "nav",
        joined(link("« first", 1, "first"), link("‹ previous", chosen.page - 1, "prev")),
        tag("span", f"page {chosen.page} of {chosen.pages}, {total}"),
        joined(link("next ›", chosen.page + 1, "next"), link("last »", chosen.pages, "last")),
        class_="pager",
        aria_label="Pages of the list",
    )
