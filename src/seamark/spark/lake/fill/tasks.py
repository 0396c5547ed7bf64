"""What a Spark task does for the lake: read one stretch of one offsets partition, write the tables' files, report.

A partition is always taken by one task, in the order of its offsets, from the state that the last run kept. Rows never
leave the task: it writes them as Parquet itself, and what goes to the driver is one line of JSON that names the files.
A task that is repeated writes other files; only those of the attempt that Spark accepted are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from seamark.spark.lake.fill.reports import Report
from seamark.spark.lake.tables.manifest import Covered
from seamark.spark.lake.task_lines import numbered_tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from seamark.spark.lake.decode.decode import Records
    from seamark.spark.lake.history.durations import RebalancesSeen
    from seamark.spark.lake.history.history import History
    from seamark.spark.lake.tables.files import LakeFiles
    from seamark.spark.read.options import ReadOptions
    from seamark.spark.read.ranges import OffsetRange

# About 150,000 small records at once: what is done per batch, not per record, then hardly counts.
FETCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Before:
    """What the task of one partition goes on from: what is covered, the files of the state kept then, and looks."""

    covered: Covered | None = None
    keys: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()


class Damaged(NamedTuple):
    """Bytes that are no records, found where ``offset`` was to come."""

    offset: int
    content: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class TopicTask:
    """A range of the offsets topic."""

    partition: int
    before: Before
    wanted: OffsetRange
    options: ReadOptions

    @property
    def stretch(self) -> tuple[int, int]:
        return self.wanted.begin, self.wanted.end

    def records(self) -> Iterator[Records]:
        from seamark.spark.lake.decode.decode import Records
        from seamark.spark.read.task import read_columns

        for batch in read_columns(self.wanted, self.options, ("key", "value", "offset", "timestamp")):
            yield Records.of(batch)


def run_tasks(spark: SparkSession, tasks: Iterable[Any], root: str) -> list[Report]:
    """Every task in a Spark task of its own; raises the sentence of the first that failed."""
    planned = list(tasks)
    if not planned:
        return []

    def work(number: int) -> str:
        return fill(planned[number], root).to_line()

    return [Report.of_line(line) for line in numbered_tasks(spark, len(planned), work)]


def fill(task: Any, root: str) -> Report:
    """Take the task's records and write what comes of them."""
    from seamark.spark.lake.tables.files import LakeFiles
    from seamark.spark.read.task import freeze_gc

    history = recalled(task.partition, task.before, root)
    files = LakeFiles(root)
    seen = rebalances_of(task.before, root)
    times = Times()
    for records in task.records():
        if isinstance(records, Damaged):
            files.add("rejects", _reject(task.partition, records), [-1])
        else:
            times.take(records)
            put(files, history.take(records), seen)
    report = finished(history, files, times, *task.stretch)
    freeze_gc()
    return report


class Times:
    """How many records there were, and from when to when."""

    def __init__(self) -> None:
        self.count = 0
        self.oldest_ms: int | None = None
        self.newest_ms: int | None = None

    def take(self, records: Records) -> None:
        if len(records.offsets):
            self.count += len(records.offsets)
            oldest, newest = int(records.times_ms.min()), int(records.times_ms.max())
            self.oldest_ms = oldest if self.oldest_ms is None else min(oldest, self.oldest_ms)
            self.newest_ms = newest if self.newest_ms is None else max(newest, self.newest_ms)


def finished(history: History, files: LakeFiles, times: Times, begin: int, end: int) -> Report:
    """Write the state, close the files and say what there is."""
    covered = history.reached(begin, end)
    for table, rows in history.state().items():
        files.add_state(table, rows, history.partition)
    return Report(history.partition, covered, times.count, times.oldest_ms, times.newest_ms, list(files.finish()))


def _reject(partition: int, damaged: Damaged) -> pa.Table:
    import pyarrow as pa

    from seamark.spark.lake.tables.schemas import file_schema

    row = {"offsets_partition": partition, "offsets_offset": damaged.offset, "reason": damaged.reason}
    return pa.Table.from_pylist([{**row, "value": damaged.content}], schema=file_schema("rejects"))


def recalled(partition: int, before: Before, root: str) -> History:
    """The partition's history as the last run left it."""
    from seamark.spark.lake.history.history import History

    history = History(partition, before.covered)
    if before.keys or before.groups:
        history.recall(_kept("state_keys", before.keys, root), _kept("state_groups", before.groups, root))
    return history


def rebalances_of(before: Before, root: str) -> RebalancesSeen:
    """What the sampler saw of rebalances."""
    from seamark.spark.lake.history.durations import RebalancesSeen

    return RebalancesSeen(f"{root}/{path}" for path in before.looks)


def put(files: LakeFiles, rows: dict[str, list[tuple[Any, Any]]], seen: RebalancesSeen) -> None:
    """Rows of several tables into their files."""
    for table, made in rows.items():
        for part, times_ms in made:
            files.add(table, seen.add_durations(part, times_ms) if table == "generations" else part, times_ms)


def _kept(table: str, paths: tuple[str, ...], root: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from seamark.spark.lake.tables.schemas import file_schema

    wanted = file_schema(table)
    tables = [pq.ParquetFile(f"{root}/{path}").read() for path in paths]
    return pa.concat_tables(tables).cast(wanted) if tables else wanted.empty_table()
