"""Keeping the lake fresh: the offsets topic as a stream, each batch published as a version.

The batch's number and how far each partition is covered are part of the version, so a batch that Spark repeats after a
crash adds nothing twice. The stream begins where the lake ends; a checkpoint that is ahead of the lake (the lake was
replaced or an older copy put back) is refused, since what lies between would be lost.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.counts import counted
from seamark.readable_log import readable_logger
from seamark.spark.lake.errors import TOPIC
from seamark.spark.lake.fill.planning import asking, before_of, cluster_id, reader_options, topic_options
from seamark.spark.lake.fill.reports import Report, publish_reports, summary_of
from seamark.spark.lake.fill.tasks import Before, Times, finished, put, rebalances_of, recalled
from seamark.spark.lake.tables.lake import Lake, LakeError
from seamark.spark.lake.tables.merging import merge_small_files
from seamark.spark.lake.task_lines import task_lines

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = readable_logger("seamark.spark")

_EARLIEST = -2
_KEPT = 100


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One published batch; ``latency_ms`` is from the oldest commit in it to its being readable in the lake."""

    batch: int
    version: int
    records: int
    rows: Mapping[str, int]
    seconds: float
    latency_ms: int | None


class LakeStream:
    """A running stream into the lake; ``progress`` has its last batches."""

    def __init__(self, lake: Lake, checkpoint: str, on_progress: Any = None) -> None:
        self.lake = lake
        self.checkpoint = checkpoint
        self.progress: deque[BatchProgress] = deque(maxlen=_KEPT)
        self.query: StreamingQuery | None = None
        self._on_progress = on_progress

    def publish(self, frame: DataFrame, batch: int) -> None:
        """Take one batch into the lake; what Spark calls for each."""
        began = time.monotonic()
        name = _query_id(self.checkpoint)
        with self.lake.writing() as lake:
            if lake.published.streams.get(name, -1) >= batch:
                return
            partitions = sorted({*lake.published.covered, *_parts(lake)})
            before = {number: before_of(lake.published, number) for number in partitions}
            reports = _fill(frame, before, str(lake.path))
            publish_reports(lake, reports, streams={**lake.published.streams, name: batch})
            merge_small_files(frame.sparkSession, lake)
        self._tell(batch, reports, time.monotonic() - began)

    def _tell(self, batch: int, reports: list[Report], seconds: float) -> None:
        summary = summary_of(reports, seconds, self.lake.version)
        oldest = min((report.oldest_ms for report in reports if report.oldest_ms is not None), default=None)
        latency = None if oldest is None else round(time.time() * 1000) - oldest
        told = BatchProgress(batch, summary.version, summary.records, summary.rows, seconds, latency)
        self.progress.append(told)
        shown = "" if latency is None else f", {latency} ms from commit to table"
        log.info("lake version %d: batch %d, %s%s", told.version, batch, counted(told.records, "record"), shown)
        if self._on_progress is not None:
            self._on_progress(told)


def stream(
    spark: SparkSession,
    lake_path: str | Path,
    config: Mapping[str, Any],
    checkpoint: str | Path,
    trigger: Mapping[str, Any] | None = None,
    *,
    max_records: int | None = None,
    on_progress: Any = None,
) -> LakeStream:
    """Start the stream.

    ``trigger`` is what Spark's ``trigger`` takes, ``{"processingTime": "10 seconds"}`` by default; ``max_records``
    bounds a batch; ``on_progress`` is called with each BatchProgress.
    """
    from seamark.spark.registration import register

    register(spark)
    lake = Lake.open_or_create(lake_path, cluster_id(config))
    with lake.writing():
        lake.remove_leftovers()
    with asking(topic_options(config)) as cluster:
        topics = cluster.topics([TOPIC])
    if TOPIC not in topics:
        raise LakeError(f"{TOPIC} does not exist yet: nothing has been committed on this cluster")
    _check_ahead(lake, str(checkpoint))
    covered = lake.published.covered
    start = {str(n): covered[n].end if n in covered else _EARLIEST for n in topics[TOPIC].partitions}
    reader = spark.readStream.format("seamark").options(**reader_options(config))
    reader = reader.schema("key binary, value binary, partition int, offset bigint, timestamp timestamp")
    if max_records is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(max_records))
    frame = reader.option("startingOffsets", json.dumps({TOPIC: start})).load()
    made = LakeStream(lake, str(checkpoint), on_progress)
    writer = frame.writeStream.foreachBatch(made.publish).option("checkpointLocation", str(checkpoint))
    made.query = writer.trigger(**(trigger or {"processingTime": "10 seconds"})).start()
    return made


def _fill(frame: DataFrame, before: Mapping[int, Before], root: str) -> list[Report]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
        for report in fill_batches(batches, before, root):
            yield report.to_line()

    return [Report.of_line(line) for line in task_lines(frame, work)]


def fill_batches(batches: Iterator[pa.RecordBatch], before: Mapping[int, Before], root: str) -> Iterator[Report]:
    """Rows of the source, those of a partition in the order of their offsets, into files of the lake."""
    import numpy as np
    import pyarrow as pa

    from seamark.spark.lake.decode.decode import Records
    from seamark.spark.lake.tables.files import LakeFiles

    taken: dict[int, tuple[Any, LakeFiles, Times, Any]] = {}
    for batch in batches:
        numbers = np.asarray(batch.column("partition"))
        for number in np.unique(numbers).tolist():
            if number not in taken:
                start = before.get(number, Before())
                taken[number] = (recalled(number, start, root), LakeFiles(root), Times(), rebalances_of(start, root))
            history, files, times, seen = taken[number]
            records = Records.of(batch.filter(pa.array(numbers == number))).behind(history.end)
            times.take(records)
            put(files, history.take(records), seen)
    for history, files, times, _ in taken.values():
        if times.count:
            yield finished(history, files, times, 0, history.end)


def _parts(lake: Lake) -> set[int]:
    return {file.part for file in lake.published.files("state_keys") if file.part is not None and file.part >= 0}


def _query_id(checkpoint: str) -> str:
    """The id that Spark gave the query when its checkpoint was made; it stays over restarts."""
    path = Path(checkpoint.removeprefix("file://").removeprefix("file:")) / "metadata"
    try:
        return str(json.loads(path.read_text())["id"])
    except (OSError, ValueError, KeyError):
        return checkpoint


def _check_ahead(lake: Lake, checkpoint: str) -> None:
    """Refuse a checkpoint whose finished batches the lake does not hold."""
    commits = Path(checkpoint.removeprefix("file://").removeprefix("file:")) / "commits"
    done = [int(file.name) for file in commits.glob("[0-9]*") if file.name.isdecimal()]
    held = lake.published.streams.get(_query_id(checkpoint), -1)
    if done and max(done) > held:
        raise LakeError(
            f"the checkpoint {checkpoint} is at batch {max(done)}, but the lake at {lake.path} has its batches up to "
            f"{held} only: use a new checkpoint, which continues where the lake ends"
        )
