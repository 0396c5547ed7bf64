"""One audit: a look at the logs, what is new in the offsets topic, the findings, the report; once or again and again.

The look comes before the topic is read, so that whatever was committed before it is in the lake: a group that the look
shows behind did not commit in the meantime. Each step publishes by itself, whole or not at all; an interruption leaves
what the finished steps published.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seamark.cli.audit import spark as audit_spark
from seamark.cli.show.durations import duration_text
from seamark.cli.show.rows import Column, write_rows
from seamark.cli.show.terminal_text import say
from seamark.counts import counted
from seamark.errors import SeamarkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.rules.findings import Parameters

_FOUND = (
    Column("SEVERITY", "severity"),
    Column("KIND", "kind"),
    Column("GROUP", "group", may_shrink=True),
    Column("WHAT", "text"),
)
# So many are shown on the screen, the most urgent ones; all are in the lake.
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Audit:
    """``source`` is ``topic``, ``sampler`` or a directory of copied logs; ``rules`` are parameters given by name."""

    lake: str
    source: str
    config: Mapping[str, str]
    rules: Mapping[str, str]
    report: str

    def once(self, *, as_json: bool) -> None:
        from seamark.spark.lake.findings.job import parameters_from

        audit_spark.require_spark()
        parameters = parameters_from(self.rules)
        with audit_spark.spark_session("seamark audit") as spark:
            self._round(spark, parameters, as_json=as_json)

    def follow(self, every: float, *, as_json: bool) -> None:
        """Until an interruption; a round that takes longer than ``every`` is followed by the next at once."""
        from seamark.spark.lake.findings.job import parameters_from

        audit_spark.require_spark()
        parameters = parameters_from(self.rules)
        with audit_spark.spark_session("seamark audit --follow") as spark:
            while True:
                began = time.monotonic()
                self._round(spark, parameters, as_json=as_json)
                left = every - (time.monotonic() - began)
                _say(f"next update in {duration_text(max(left, 0))}; Ctrl-C stops")
                time.sleep(max(left, 0))

    def _round(self, spark: SparkSession, parameters: Parameters, *, as_json: bool) -> None:
        self._fill(spark)
        from seamark.spark.lake import Lake, find

        lake = Lake.open(self.lake)
        began = time.monotonic()
        counts = find(spark, lake, parameters)
        told = counted(sum(counts.values()), "finding")
        _say(f"{told} in {duration_text(time.monotonic() - began)}{_kinds(counts)}")
        if self.report or as_json:
            from seamark.spark.lake.report.report import json_text, write_report

            began = time.monotonic()
            made = write_report(spark, lake, self.report or None)
            if self.report:
                took = duration_text(time.monotonic() - began)
                _say(f"report of {counted(made['totals']['groups'], 'group')} in {took}: {self.report}")
            if as_json:
                sys.stdout.write(json_text(made) + "\n")
                sys.stdout.flush()
        if not as_json and counts:
            self._show(spark, lake)

    def _fill(self, spark: SparkSession) -> None:
        from seamark.spark.lake import TopicNotReadable, run

        if self.source == "topic":
            _say("sampling groups and logs")
            self._told(run(spark, self.lake, source="sampler", config=self.config, commits=False), "sample")
            _say(f"reading __consumer_offsets into {self.lake}")
            try:
                self._told(run(spark, self.lake, source="topic", config=self.config), "records")
            except TopicNotReadable as refused:
                raise SeamarkError(f"{refused}: use --source sampler") from None
        elif self.source == "sampler":
            _say(f"sampling the coordinators into {self.lake}")
            self._told(run(spark, self.lake, source="sampler", config=self.config), "sample")
        else:
            _say(f"reading {self.source} into {self.lake}")
            self._told(run(spark, self.lake, source=self.source, config=self.config), "records")

    def _told(self, summary: Any, what: str) -> None:
        rows = ", ".join(f"{table} {count}" for table, count in sorted(summary.rows.items()) if count)
        count = "sampled" if what == "sample" else counted(summary.records, "new record")
        _say(f"{count} in {duration_text(summary.seconds)}, rows: {rows or 'none'}")

    def _show(self, spark: SparkSession, lake: Any) -> None:
        from pyspark.sql import functions as F

        from seamark.rules.findings import SEVERITIES

        urgency = F.array_position(F.array(*(F.lit(severity) for severity in SEVERITIES)), F.col("severity"))
        rows = lake.read(spark, "findings").orderBy(urgency, F.desc("first_time"), "group", "topic", "partition")
        shown = [tuple(row[column.name] for column in _FOUND) for row in rows.limit(_SHOWN).collect()]
        write_rows(_FOUND, shown, "table")


def _kinds(counts: Mapping[str, int]) -> str:
    return ": " + ", ".join(f"{count} {kind}" for kind, count in counts.items()) if counts else ""


def _say(text: str) -> None:
    say(f"audit: {text}")
