"""The frame of every page: head, navigation, the strip that says how fresh things are, and small shared pieces.

Parts of a page with ``live=True`` have an id and are exchanged by the script when there is something new; everything
works without the script as well, by loading the page again.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from seamark.counts import counted
from seamark.dashboard.markup import Child, Markup, joined, tag
from seamark.dashboard.sight import Sight
from seamark.dashboard.wording import Wording, time_text
from seamark.rules.status import Status

_STATUS_CLASS = {
    Status.OK: "ok",
    Status.UNKNOWN: "unknown",
    Status.NO_MEMBERS: "unknown",
    Status.SLOW: "slow",
    Status.STALLED: "bad",
    Status.STOPPED: "bad",
    Status.REWOUND: "bad",
    Status.LOST: "bad",
    Status.BEYOND: "bad",
}
# A status is told by sign and word, not by colour alone.
_STATUS_SIGN = {"ok": "●", "unknown": "○", "slow": "▲", "bad": "■"}


@dataclass(frozen=True, slots=True)
class Context:
    """What a page is made for: who sees it and what may be done."""

    sights: Mapping[str, Sight]
    wording: Wording
    allow_changes: bool
    form_secret: str
    theme: str = ""
    sight: Sight | None = None

    @property
    def here(self) -> Sight:
        assert self.sight is not None
        return self.sight

    def url(self, page: str, /, **query: object) -> str:
        """The address of a page of the cluster at hand; names of all kinds go into the query."""
        return f"/c/{urllib.parse.quote(self.here.name, safe='')}/{page}{query_text(query)}"


def query_text(query: Mapping[str, object]) -> str:
    given = [(key, str(value)) for key, value in query.items() if value not in (None, "")]
    return f"?{urllib.parse.urlencode(given, errors='replace')}" if given else ""


def page(context: Context | None, title: str, *content: Child, section: str = "", theme: str = "") -> str:
    """A whole page; without a context only the frame, for those who have not logged in."""
    live = context.url("live") if context is not None and context.sight is not None else None
    body = tag(
        "body",
        tag("a", "Skip to content", href="#content", class_="skip"),
        _header(context, section) if context is not None else None,
        tag("main", *content, id="content", tabindex="-1"),
        _keys() if context is not None else None,
        data_live=live,
        data_version=context.sight.version if context is not None and context.sight is not None else None,
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · Seamark"),
        tag("link", rel="icon", href="/static/mark.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/static/seamark.css"),
        tag("script", src="/static/seamark.js", defer=True),
    )
    theme = context.theme if context is not None else theme
    return "<!doctype html>" + tag("html", head, body, lang="en", data_theme=theme or None)


def live(name: str, /, *content: Child, kind: str = "div", **attributes: object) -> Markup:
    """A part that is exchanged when there is something new."""
    return tag(kind, *content, id=f"live-{name}", data_live_part=True, **attributes)


def status_mark(status: Status) -> Markup:
    kind = _STATUS_CLASS[status]
    return tag("span", tag("span", _STATUS_SIGN[kind], aria_hidden="true"), " ", status.value, class_=f"status {kind}")


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Child]], *, empty: str, caption: str) -> Markup:
    """A table that becomes cards on a narrow screen; a column is its title and a class."""
    body = [
        tag(
            "tr",
            [
                tag("td", cell, class_=kind or None, data_title=title)
                for (title, kind), cell in zip(columns, row, strict=True)
            ],
        )
        for row in rows
    ]
    if not body:
        return tag("p", empty, class_="quiet")
    head = tag("tr", [tag("th", title, scope="col", class_=kind or None) for title, kind in columns])
    return tag("table", tag("caption", caption, class_="unseen"), tag("thead", head), tag("tbody", body))


def freshness(context: Context) -> Markup:
    """How old what is shown is, and what of the dashboard itself does not work."""
    sight = context.here
    board = sight.board
    parts: list[Child] = []
    if board is None:
        parts.append("Waiting for the first poll of the cluster …" if sight.error is None else None)
    else:
        age = board.look.age
        ago = f"{age:.0f}s" if age < 60 else context.wording.duration(age)
        parts.append(
            joined(
                "Seen ",
                tag("time", f"{ago} ago", title=time_text(board.look.at_ms), data_at=board.look.at_ms),
                f", {counted(len(board.rows), 'group')}",
            )
        )
    if sight.webhook is not None and sight.firing:
        parts.append(f", {counted(sight.firing, 'alert')} firing")
    problems = []
    if sight.error is not None:
        problems.append(f"The last poll failed: {sight.error}")
    if sight.history_error is not None:
        problems.append(f"Graphs are not saved: {sight.history_error}")
    if sight.webhook is not None and sight.webhook.error is not None:
        problems.append(f"Alerts cannot be delivered: {sight.webhook.error}")
    return live(
        "freshness",
        tag("span", *parts, class_="quiet"),
        [tag("p", problem, class_="problem", role="alert") for problem in problems],
        class_="freshness",
    )


def filter_field(text: str) -> Markup:
    """Where a part of a name is typed; the script's key for it looks for the id."""
    field = tag("input", type="search", name="q", value=text, placeholder="part of a name", id="filter", maxlength=300)
    return tag("label", "Filter ", field)


def hidden(context: Context, **fields: object) -> list[Markup]:
    """The form secret, and fields that only the page knows."""
    given = {"secret": context.form_secret, **fields}
    return [tag("input", type="hidden", name=name, value=value) for name, value in given.items()]


def _header(context: Context, section: str) -> Markup:
    sight = context.sight
    links: list[Markup] = []
    if sight is not None:
        pages = [
            ("groups", "Groups"),
            ("topics", "Topics"),
            *([("changes", "Changes")] if context.allow_changes else []),
        ]
        links = [
            tag("a", title, href=context.url(name), data_go=name, aria_current="page" if section == name else None)
            for name, title in pages
        ]
    clusters = [
        tag(
            "a",
            name,
            href=f"/c/{urllib.parse.quote(name, safe='')}/groups",
            aria_current="true" if sight is not None and sight.name == name else None,
        )
        for name in context.sights
    ]
    return tag(
        "header",
        tag("a", tag("img", src="/static/mark.svg", alt="", width=22, height=22), "Seamark", href="/", class_="name"),
        tag("nav", clusters, aria_label="Clusters", class_="clusters") if len(clusters) > 1 else None,
        tag("nav", links, aria_label="Pages", class_="pages"),
        tag(
            "div",
            tag("span", "changes allowed", class_="badge warn") if context.allow_changes else None,
            tag(
                "button",
                "Live",
                type="button",
                id="live-toggle",
                aria_pressed="true",
                hidden=True,
                title="Pause or resume (p)",
            ),
            tag("button", "Theme", type="button", id="theme-toggle", hidden=True, title="Light or dark (t)"),
            tag("button", "?", type="button", id="keys-open", hidden=True, title="Keys (?)", aria_label="Keys"),
            tag("form", hidden(context), tag("button", "Log out"), method="post", action="/logout"),
            class_="tools",
        ),
    )


def _keys() -> Markup:
    keys = [
        ("/", "filter"),
        ("j  k", "next, previous row"),
        ("Enter", "open"),
        ("g g", "groups"),
        ("g t", "topics"),
        ("p", "pause or resume live updates"),
        ("t", "light or dark"),
        ("?", "this list"),
        ("Esc", "close"),
    ]
    return tag(
        "dialog",
        tag("h2", "Keys"),
        tag("dl", [joined(tag("dt", tag("kbd", key)), tag("dd", what)) for key, what in keys]),
        tag("form", tag("button", "Close"), method="dialog"),
        id="keys",
    )
