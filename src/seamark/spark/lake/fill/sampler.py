"""Looks at a cluster through its coordinators: group states, log bounds and lag, for clusters that hide the topic too.

A look is one Spark task that asks in batches, whatever the number of groups, and is published as one version. Where the
lake has nothing of the offsets topic, offsets that changed since the last look become rows of ``commits``: what
happened between two looks is not known, so such rows are never complete and their origin is unknown.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import SeamarkError
from seamark.readable_log import readable_logger
from seamark.spark.lake.errors import translated
from seamark.spark.lake.fill.tasks import REPORT
from seamark.spark.lake.tables.lake import Lake
from seamark.spark.lake.tables.manifest import File
from seamark.spark.lake.tables.merging import merge_small_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from seamark.spark.lake.fill.job import RunSummary

log = readable_logger("seamark.spark")

# The partition under which the sampler's own state is kept: it is none of the topic's.
SAMPLED = -1


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has written; ``unknown`` counts groups and partitions that did not answer."""

    time_ms: int
    groups: int
    unknown: int
    files: list[tuple[str, File]]

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_line(cls, line: str) -> Look:
        told = json.loads(line)
        return cls(files=[(table, File(**file)) for table, file in told.pop("files")], **told)


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
    from seamark.spark.lake.fill.job import RunSummary, cluster_id

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

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from seamark.spark.lake.fill.sampler_rows import write_look

        for batch in batches:
            if batch.num_rows:
                look = write_look(root, settings, kept if with_commits else None)
                yield pa.RecordBatch.from_pydict({"report": [look.to_line()]})

    with translated():
        found = spark.range(0, 1, 1, 1).mapInArrow(work, REPORT).collect()
    if not found:
        raise SeamarkError("sampling the cluster gave no result; nothing was published")
    return Look.of_line(found[0].report)


def _publish(lake: Lake, look: Look) -> None:
    added: dict[str, list[File]] = {}
    for table, file in look.files:
        added.setdefault(table, []).append(file)
    # A clock that was put back does not make the last look an earlier one.
    lake.publish(added, sampled_ms=max(look.time_ms, lake.published.sampled_ms or 0))
