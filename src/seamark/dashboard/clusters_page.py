"""The first page with a card per cluster, and the pages that need no cluster: login, and what went wrong."""

from __future__ import annotations

import urllib.parse

from seamark.counts import counted
from seamark.dashboard.layout import Context, page, status_mark
from seamark.dashboard.markup import Markup, tag
from seamark.dashboard.sight import Sight
from seamark.dashboard.wording import count_text, sentence_text
from seamark.rules.status import Status


def clusters_page(context: Context) -> str:
    cards = [_card(name, sight) for name, sight in context.sights.items()]
    return page(context, "Clusters", tag("h1", "Clusters"), tag("div", cards, class_="cards"))


def _card(name: str, sight: Sight) -> Markup:
    board = sight.board
    if board is None:
        said: list[Markup | None] = [tag("p", sight.error or "Waiting for the first poll …", class_="quiet")]
    else:
        lag = sum(row.lag or 0 for row in board.rows)
        lost = sum(row.lost for row in board.rows)
        said = [
            tag("p", f"{counted(len(board.rows), 'group')}, {counted(lag, 'record')} behind in total"),
            tag("p", f"{counted(lost, 'record')} deleted before being read", class_="problem") if lost else None,
            tag(
                "p",
                [
                    tag("span", status_mark(status), " ", tag("b", count_text(count)), " ")
                    for status in reversed(Status)
                    if (count := board.counts.get(status))
                ],
            ),
        ]
        if sight.error is not None:
            said.append(tag("p", f"The last poll failed: {sight.error}", class_="problem"))
    link = tag("a", name, href=f"/c/{urllib.parse.quote(name, safe='')}/groups", class_="row")
    return tag("section", tag("h2", link), said, class_="card")


def login_page(secret: str, problem: str, theme: str) -> str:
    return page(
        None,
        "Log in",
        tag(
            "form",
            tag("img", src="/static/mark.svg", alt="", width=40, height=40),
            tag("h1", "Seamark"),
            tag("p", problem, class_="problem", role="alert") if problem else None,
            tag("input", type="hidden", name="secret", value=secret),
            tag(
                "label",
                "Token ",
                tag(
                    "input", type="password", name="token", id="token", autocomplete="current-password", autofocus=True
                ),
            ),
            tag("p", "seamark dashboard printed it when it started.", class_="quiet"),
            tag("button", "Log in", class_="primary"),
            method="post",
            action="/login",
            id="login",
            class_="card login",
        ),
        theme=theme,
    )


def error_page(context: Context | None, sentence: str, theme: str = "") -> str:
    """What went wrong, in a sentence."""
    return page(
        context,
        "Not possible",
        tag("h1", "That did not work"),
        tag("p", sentence_text(sentence), class_="problem", role="alert"),
        tag("p", tag("a", "Back to the start page", href="/")),
        theme=theme,
    )
