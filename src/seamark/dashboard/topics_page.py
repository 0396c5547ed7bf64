"""Topics: how many records they hold and which groups read them; one topic with its partitions.

The list of topics is asked for at most once per ``KEEP_S`` seconds and never twice at a time; the bounds of logs only
for the topics that a page shows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from seamark.client import Admin
from seamark.client.cluster_view import TopicView
from seamark.dashboard.board import Board
from seamark.dashboard.groups_page import pages
from seamark.dashboard.layout import Context, filter_field, freshness, live, page, status_mark, table
from seamark.dashboard.listing import Query, paged
from seamark.dashboard.markup import Child, Markup, tag
from seamark.dashboard.sight import NotFound
from seamark.dashboard.wording import NOTHING, count_text, name_text
from seamark.monitor.scan import Bounds, bounds_of
from seamark.rules.lag import total
from seamark.suggest import absent
from seamark.topic_partition import TopicPartition

KEEP_S = 10.0
ORDERS = {"name": None}
_TIMEOUT_S = 10.0
_MOST_NAMES = 20


class Topics:
    """The topics of one cluster."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._lock = threading.Lock()
        self._known: Mapping[str, TopicView] = {}
        self._asked = -KEEP_S

    def all(self) -> Mapping[str, TopicView]:
        with self._lock:
            if time.monotonic() - self._asked >= KEEP_S:
                self._known = self._admin.list_topics(include_internal=True, timeout=_TIMEOUT_S)
                self._asked = time.monotonic()
            return self._known

    def one(self, name: str) -> TopicView:
        known = self.all()
        if name not in known:
            raise NotFound(absent("topic", name, known))
        return known[name]

    def bounds(self, topics: list[TopicView]) -> dict[TopicPartition, Bounds]:
        asked = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
        return bounds_of(self._admin, asked, timeout=_TIMEOUT_S)


def topics_page(context: Context, topics: Topics, query: Query) -> str:
    wanted = query.text.casefold()
    fitting = [topic for name, topic in sorted(topics.all().items()) if wanted in name.casefold()]
    chosen = paged(fitting, query)
    bounds = topics.bounds(list(chosen.rows))
    readers = _readers(context.here.board)
    columns = [
        ("Topic", "name"),
        ("Partitions", "number"),
        ("Replicas", "number"),
        ("Records", "number"),
        ("Groups", "number"),
        ("Remark", "remark"),
    ]
    rows = [_topic_row(context, topic, bounds, readers) for topic in chosen.rows]
    return page(
        context,
        f"Topics of {context.here.name}",
        tag("h1", "Topics"),
        freshness(context),
        tag(
            "form",
            filter_field(query.text),
            tag("button", "Show"),
            method="get",
            action=context.url("topics"),
            class_="filter",
            role="search",
        ),
        live(
            "topics",
            table(
                columns,
                rows,
                empty="No topic matches the filter." if query.text else "The cluster has no topics.",
                caption="Topics",
            ),
            pages(context, "topics", query, chosen, "topic"),
        ),
        section="topics",
    )


def _topic_row(
    context: Context, topic: TopicView, bounds: Mapping[TopicPartition, Bounds], readers: Mapping[str, set[str]]
) -> list[Child]:
    logs = [bounds[TopicPartition(topic.name, index)] for index in topic.partitions]
    records = [log.log_end - log.log_start for log in logs if log.log_end is not None and log.log_start is not None]
    replicas = {len(partition.replicas) for partition in topic.partitions.values()}
    return [
        tag("a", topic.name, href=context.url("topic", id=topic.name), class_="row"),
        count_text(len(topic.partitions)),
        " to ".join(str(number) for number in sorted({min(replicas), max(replicas)})) if replicas else NOTHING,
        count_text(sum(records)) if records else NOTHING,
        count_text(len(readers.get(topic.name, ()))),
        "; ".join(_remarks(topic, logs)),
    ]


def _remarks(topic: TopicView, bounds: list[Bounds]) -> list[str]:
    remarks = ["internal"] if topic.is_internal else []
    leaderless = sum(partition.leader < 0 for partition in topic.partitions.values())
    behind = sum(len(partition.in_sync) < len(partition.replicas) for partition in topic.partitions.values())
    silent = sum(log.error is not None for log in bounds)
    if leaderless:
        remarks.append(f"{leaderless} without a leader")
    if behind:
        remarks.append(f"{behind} with replicas behind")
    if silent and silent != leaderless:
        remarks.append(f"{silent} not responding")
    return remarks


def _readers(board: Board | None) -> dict[str, set[str]]:
    readers: dict[str, set[str]] = {}
    for name, view in board.views.items() if board is not None else ():
        for partition in view.partitions:
            readers.setdefault(partition.partition.topic, set()).add(name)
    return readers


def topic_page(context: Context, topics: Topics, name: str, query: Query) -> str:
    topic = topics.one(name)
    bounds = topics.bounds([topic])
    chosen = paged(sorted(topic.partitions.values(), key=lambda partition: partition.index), query)
    columns = [
        ("Partition", "number"),
        ("Leader", "number"),
        ("Replicas", ""),
        ("In sync", ""),
        ("First", "number"),
        ("Next", "number"),
        ("Records", "number"),
        ("Remark", "remark"),
    ]
    rows: list[list[Child]] = []
    for partition in chosen.rows:
        log = bounds[TopicPartition(name, partition.index)]
        records = None if log.log_end is None or log.log_start is None else log.log_end - log.log_start
        rows.append(
            [
                partition.index,
                str(partition.leader) if partition.leader >= 0 else NOTHING,
                _ids(partition.replicas),
                _ids(partition.in_sync),
                count_text(log.log_start),
                count_text(log.log_end),
                count_text(records),
                log.error or "",
            ]
        )
    return page(
        context,
        f"Topic {name}",
        tag("p", tag("a", "Topics", href=context.url("topics")), " › topic", class_="quiet"),
        tag("h1", name),
        freshness(context),
        live("topic-groups", tag("h2", "Groups that read it"), _groups_of(context, name), kind="section"),
        live(
            "topic-partitions",
            tag("h2", "Partitions"),
            table(columns, rows, empty="It has no partitions.", caption="Partitions"),
            pages(context, "topic", query, chosen, "partition", id=name),
            kind="section",
        ),
        section="topics",
    )


def _groups_of(context: Context, name: str) -> Markup:
    board = context.here.board
    names = sorted(_readers(board).get(name, ()))
    rows: list[list[Child]] = []
    for group in names[:_MOST_NAMES] if board is not None else ():
        parts = (
            [partition for partition in board.views[group].partitions if partition.partition.topic == name]
            if board
            else []
        )
        row = context.here.group_row(board, group) if board else None
        rows.append(
            [
                tag("a", name_text(group) or "(no name)", href=context.url("group", id=group), class_="row"),
                status_mark(row.status) if row else "",
                count_text(total(partition.lag for partition in parts)),
                count_text(len(parts)),
            ]
        )
    columns = [("Group", "name"), ("Status", ""), ("Lag in this topic", "number"), ("Partitions", "number")]
    shown = table(columns, rows, empty="No group reads it.", caption="Groups that read it")
    more = len(names) - len(rows)
    return tag("div", shown, tag("p", f"and {more} more", class_="quiet") if more > 0 else None)


def _ids(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
