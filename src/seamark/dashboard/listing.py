"""Which rows of a long list are shown: filter, order and page, decided on the server from the address alone. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from seamark.dashboard.board import GroupRow
from seamark.errors import UsageError
from seamark.rules.status import Status

SIZES = (25, 50, 100, 200)
DEFAULT_SIZE = 50
_LONGEST = 300
_WORST_FIRST = {status: -place for place, status in enumerate(Status)}

Row = TypeVar("Row")

# The better way round first: the worst status, the most lag, names from A.
ORDERS: Mapping[str, Callable[[GroupRow], Any]] = {
    "status": lambda row: (_WORST_FIRST[row.status], -(row.lag or 0), row.name),
    "name": lambda row: row.name,
    "lag": lambda row: (-(row.lag if row.lag is not None else -1), row.name),
    "behind": lambda row: (-(row.behind.seconds if row.behind else -1.0), row.name),
    "members": lambda row: (-row.members, row.name),
    "state": lambda row: (row.state, row.name),
}


@dataclass(frozen=True, slots=True)
class Query:
    """What the address asks for; ``status`` and ``text`` empty mean all."""

    text: str = ""
    status: str = ""
    order: str = "status"
    is_reversed: bool = False
    page: int = 1
    size: int = DEFAULT_SIZE

    @classmethod
    def of(cls, asked: Mapping[str, str], orders: Mapping[str, Any] = ORDERS) -> Query:
        """UsageError for what a page never links to."""
        text, status = asked.get("q", ""), asked.get("status", "")
        order = asked.get("sort") or next(iter(orders))
        if len(text) > _LONGEST:
            raise UsageError(f"the filter must have at most {_LONGEST} characters")
        if order not in orders:
            raise UsageError(f"sort={order!r} is not one of {', '.join(orders)}")
        if status and status not in {state.value for state in Status}:
            raise UsageError(f"status={status!r} is not one of {', '.join(state.value for state in Status)}")
        size = _number(asked, "size", DEFAULT_SIZE)
        if size not in SIZES:
            raise UsageError(f"size={size} is not one of {', '.join(map(str, SIZES))}")
        return cls(text.strip(), status, order, asked.get("dir") == "up", max(1, _number(asked, "page", 1)), size)

    def address(self, **changed: Any) -> dict[str, object]:
        """The query of an address that asks for this, or for this with something changed."""
        new = replace(self, **changed)
        return {
            "q": new.text, "status": new.status, "sort": new.order, "dir": "up" if new.is_reversed else "",
            "page": new.page if new.page > 1 else "", "size": new.size if new.size != DEFAULT_SIZE else "",
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chosen(Generic[Row]):
    """The rows of one page; ``total`` fit the filter."""

    rows: Sequence[Row]
    total: int
    page: int
    pages: int


def choose_groups(rows: Sequence[GroupRow], query: Query) -> Chosen[GroupRow]:
    wanted = query.text.casefold()
    matching = [
        row
        for row in rows
        if (not wanted or wanted in row.name.casefold()) and (not query.status or row.status.value == query.status)
    ]
    matching.sort(key=ORDERS[query.order], reverse=query.is_reversed)
    return paged(matching, query)


def paged(rows: Sequence[Row], query: Query) -> Chosen[Row]:
    """One page; a page beyond the last is the last."""
    pages = max(1, -(-len(rows) // query.size))
    page = min(query.page, pages)
    return Chosen(rows[(page - 1) * query.size : page * query.size], len(rows), page, pages)


def _number(asked: Mapping[str, str], name: str, otherwise: int) -> int:
    text = asked.get(name) or str(otherwise)
    if not text.isdecimal() or len(text) > 9:
        raise UsageError(f"{name}={text[:20]!r} is not a number")
    return int(text)
