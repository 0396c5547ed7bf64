"""Looks at a cluster through its coordinators: group states, log bounds and lag, for clusters that hide the topic too.

A look is one Spark task that asks in batches, whatever the number of groups, and is published as one version. Where the
lake has nothing of the offsets topic, offsets that changed since the last look become rows of ``commits``: what
happened between two looks is not known, so such rows are never complete and their origin is unknown.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.readable_log import readable_logger
from seamark.spark.lake.fill.planning import cluster_id
from seamark.spark.lake.fill.reports import SAMPLED, Look, RunSummary
from seamark.spark.lake.tables.lake import Lake
from seamark.spark.lake.tables.manifest import File
from seamark.spark.lake.tables.merging import merge_small_files
from seamark.spark.lake.task_lines import numbered_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = readable_logger("seamark.spark")


def sample(
    spark: SparkSession,
    lake_path: str | Path,
    *,
    config: Mapping[str, Any],
    looks: int = 1,
    interval: float = 30.0,
    commits: bool | None = None,
) -> RunSummary:
    """Look ``looks`` times, ``interval`` seconds apart, each look published by itself.

    ``commits`` says whether changed offsets become rows of ``commits``; by default they do where the lake has nothing
    of the offsets topic.
    """
    began = time.monotonic()
    lake = Lake.open_or_create(lake_path, cluster_id(config))
    rows: dict[str, int] = {}
    for number in range(looks):
        if number:
            time.sleep(max(0.0, began + number * interval - time.monotonic()))
        with lake.writing():
            if not number:
                lake.remove_leftovers()
            with_commits = not lake.published.covered if commits is None else commits
            look = look_once(spark, lake, config, with_commits=with_commits)
            _publish(lake, look)
            merge_small_files(spark, lake)
        if not look.groups:
            # Kafka leaves out of its list what may not be seen.
            log.warning("the coordinators returned no group: there is none, or the DESCRIBE ACL on groups is missing")
        if look.unknown:
            log.warning("sample at %d ms: groups and partitions that could not be read: %d", look.time_ms, look.unknown)
        for table, file in look.files:
            if not table.startswith("state_"):
                rows[table] = rows.get(table, 0) + file.rows
    return RunSummary(sum(rows.values()), rows, time.monotonic() - began, lake.version)


def look_once(spark: SparkSession, lake: Lake, config: Mapping[str, Any], *, with_commits: bool) -> Look:
    """One look, in a task; the files are there, but not published."""
    root = str(lake.path)
    kept = tuple(file.path for file in lake.published.files("state_keys") if file.part == SAMPLED)
    settings = dict(config)

    def work(_: int) -> str:
        from seamark.spark.lake.fill.sampler_rows import write_look

        return write_look(root, settings, kept if with_commits else None).to_line()

    [line] = numbered_tasks(spark, 1, work)
    return Look.of_line(line)


def _publish(lake: Lake, look: Look) -> None:
    added: dict[str, list[File]] = {}
    for table, file in look.files:
        added.setdefault(table, []).append(file)
    # A clock that was put back does not make the last look an earlier one.
    lake.publish(added, sampled_ms=max(look.time_ms, lake.published.sampled_ms or 0))
