"""What Spark's progress events tell about queries over this source, as lines, metrics and offsets to commit.

Takes the event's fields, which are texts of JSON where Spark has offsets, and ``"None"`` or ``"null"`` where it has
none. Sources of other formats in the same query are passed by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from seamark.counts import counted
from seamark.errors import ConfigError
from seamark.http_pages import HttpPages, Page
from seamark.prometheus_text import CONTENT_TYPE, Family
from seamark.spark.errors import BadCheckpoint
from seamark.spark.read.group_commits import NONE_YET, OK
from seamark.spark.read.offset_document import SourceOffsets, read_document

_METRICS = {
    "seamark_spark_lag_records": "Records between the position of a query and the end of the log.",
    "seamark_spark_lag_seconds": "Age of the oldest unread record of a query.",
    "seamark_spark_batch_id": "The last finished batch of a query.",
    "seamark_spark_commits_ok": "1 while a query commits to its group, 0 while that is refused, fails or is held back.",
}


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One source of ours in one event; ``ends`` is what the batch has read up to."""

    ends: SourceOffsets
    rows: int
    # None in the first event of a run that finishes a batch of the last one: Spark does not ask for the ends then.
    lag_records: int | None
    lag_ms: int | None
    partitions: Mapping[str, Mapping[str, int]]
    commits: str | None

    @property
    def commits_kind(self) -> str | None:
        """How commits to the group stand, in the first words of the status; None where the event does not tell."""
        return None if self.commits is None else self.commits.partition(":")[0]

    @property
    def is_committing(self) -> bool:
        return self.commits_kind in (None, NONE_YET, OK)


def source_progress(end_offset: Any, latest_offset: Any, rows: int) -> SourceProgress | None:
    """A source's part of an event; None for another format, or for one that has not begun."""
    document, latest = _object(end_offset), _object(latest_offset)
    if document is None or "seamark" not in document:
        return None
    try:
        ends = read_document(document)
    except BadCheckpoint:
        return None
    told = latest.get("seamark") if latest is not None else None
    if not isinstance(told, dict):
        told = {}
    return SourceProgress(
        ends,
        rows,
        told.get("lag_records"),
        told.get("lag_ms"),
        told.get("partitions", {}),
        told.get("commits"),
    )


def _object(text: Any) -> dict[str, Any] | None:
    try:
        content = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def batch_line(query: str, batch: int, source: SourceProgress) -> str:
    """The line that is logged for a batch."""
    age = "of unknown age" if source.lag_ms is None else f"{source.lag_ms / 1000:.1f} s old"
    if source.lag_records is None:
        lag = "lag not known yet"
    else:
        lag = f"{counted(source.lag_records, 'record')} behind" + (f", the oldest {age}" if source.lag_records else "")
    group = "" if source.ends.group is None else f"; group {source.ends.group}: {source.commits or 'unknown'}"
    rows = f"{counted(source.rows, 'row')} of {', '.join(sorted(source.ends.topics))}"
    return f"query {query} batch {batch}: {rows}; {lag}{group}"


class LagMetrics:
    """The newest numbers of each running query, in Prometheus' text format."""

    def __init__(self) -> None:
        self._queries: dict[str, tuple[str, int, list[SourceProgress]]] = {}

    def progressed(self, query_id: str, name: str, batch: int, sources: list[SourceProgress]) -> None:
        # Replaced as a whole: another thread may be rendering.
        self._queries = {**self._queries, query_id: (name, batch, sources)}

    def ended(self, query_id: str) -> None:
        self._queries = {other_id: kept for other_id, kept in self._queries.items() if other_id != query_id}

    def text(self) -> str:
        families = {name: Family(name, "gauge", told) for name, told in _METRICS.items()}
        for query, batch, sources in sorted(self._queries.values(), key=lambda kept: kept[0]):
            families["seamark_spark_batch_id"].add(batch, query=query)
            for source in sources:
                of_query = {"query": query, "group": source.ends.group or ""}
                topics = ",".join(sorted(source.ends.topics))
                for topic, partitions in sorted(source.partitions.items()):
                    for index, count in partitions.items():
                        families["seamark_spark_lag_records"].add(count, **of_query, topic=topic, partition=index)
                if source.ends.group is not None and source.commits is not None:
                    is_ok = int(source.is_committing)
                    families["seamark_spark_commits_ok"].add(is_ok, **of_query, topics=topics)
                if source.lag_ms is not None:
                    families["seamark_spark_lag_seconds"].add(source.lag_ms / 1000, **of_query, topics=topics)
        return "".join(family.text() for family in families.values())


class MetricsPage(HttpPages):
    """The metrics at ``/metrics`` on loopback. Ends with the process; ``port`` is the one it got."""

    def __init__(self, port: int, text: Callable[[], str]) -> None:
        def page(path: str) -> Page:
            if path == "/metrics":
                return Page(text(), content_type=CONTENT_TYPE)
            return Page("the metrics are at /metrics\n", HTTPStatus.NOT_FOUND)

        try:
            super().__init__(page, f"127.0.0.1:{port}", name="seamark-metrics")
        except ConfigError as error:
            raise ConfigError("metrics_port", port, error.reason) from None

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])
