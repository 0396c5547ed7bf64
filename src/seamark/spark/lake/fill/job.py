"""Filling the lake in batches: what is new in the offsets topic since the last run, from the topic or from copied logs.

A run plans one task per offsets partition that has something new, lets Spark run them, and publishes all their files
as one version, together with how far each partition is covered. Whatever happens before that, the lake is as it was.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.spark.lake.fill.log_directory import directory_tasks
from seamark.spark.lake.fill.planning import asking, cluster_id, plan, topic_options
from seamark.spark.lake.fill.reports import RunSummary, publish_reports, summary_of
from seamark.spark.lake.fill.tasks import run_tasks
from seamark.spark.lake.tables.lake import Lake
from seamark.spark.lake.tables.merging import merge_small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    spark: SparkSession,
    lake_path: str | Path,
    *,
    source: str | Path = "topic",
    config: Mapping[str, Any] | None = None,
    **sampling: Any,
) -> RunSummary:
    """Bring the lake up to date.

    ``source`` is ``"topic"``, ``"sampler"`` or a directory with log directories copied from a broker; ``config`` are
    Kafka client properties, ``sampling`` goes to ``sampler.sample``. Raises LakeError, LakeJobFailed or the client's
    own errors; then nothing was published.
    """
    began = time.monotonic()
    if source == "sampler":
        from seamark.spark.lake.fill.sampler import sample

        return sample(spark, lake_path, config=config or {}, **sampling)
    if source == "topic":
        options = topic_options(config or {})
        lake = Lake.open_or_create(lake_path, cluster_id(config or {}))
    else:
        lake = Lake.open_or_create(lake_path, None)
    with lake.writing():
        lake.remove_leftovers()
        topic_id = lake.published.topic_id
        tasks: Sequence[Any]
        if source == "topic":
            with asking(options) as cluster:
                topic_id, tasks = plan(cluster, options, lake.published)
        else:
            tasks = directory_tasks(Path(source), lake.published)
        reports = run_tasks(spark, tasks, str(lake.path))
        publish_reports(lake, reports, topic_id=topic_id)
        merge_small_files(spark, lake)
    return summary_of(reports, time.monotonic() - began, lake.version)


__all__ = ["RunSummary", "run"]
