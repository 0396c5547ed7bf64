"""Filling the lake in batches: what is new in the offsets topic since the last run, from the topic or from copied logs.

A run plans one task per offsets partition that has something new, lets Spark run them, and publishes all their files
as one version, together with how far each partition is covered. Whatever happens before that, the lake is as it was.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.client.errors import ClientError
from seamark.counts import counted
from seamark.readable_log import readable_logger
from seamark.spark.lake.errors import TOPIC, LakeJobFailed, TopicNotReadable, is_refusal
from seamark.spark.lake.fill.log_directory import directory_tasks
from seamark.spark.lake.fill.tasks import FETCH_BYTES, Before, Report, TopicTask, run_tasks
from seamark.spark.lake.tables.lake import Lake, LakeError
from seamark.spark.lake.tables.manifest import File, Manifest
from seamark.spark.lake.tables.merging import merge_small_files
from seamark.spark.read.kafka_cluster import KafkaCluster
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.ranges import OffsetRange
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.spark.read.cluster import Cluster

log = readable_logger("seamark.spark")

# Files of group states that are searched for rebalances: the last few hours of a sampler that looks every minute.
_LOOKS = 200
# So many kinds of records that cannot be read are told apart in the log.
_REJECTED_KINDS = 5


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run has added; ``version`` is the lake's after it."""

    records: int
    rows: Mapping[str, int]
    seconds: float
    version: int


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
            tasks = directory_tasks(Path(source), lake.published, before_of)
        reports = run_tasks(spark, tasks, str(lake.path))
        publish_reports(lake, reports, topic_id=topic_id)
        merge_small_files(spark, lake)
    return summary_of(reports, time.monotonic() - began, lake.version)


def topic_options(config: Mapping[str, Any], **more: str) -> ReadOptions:
    """How the offsets topic is read with these client properties; commits of aborted transactions are left out."""
    given = reader_options(config) | more
    return ReadOptions.of(given, is_stream=False)


def reader_options(config: Mapping[str, Any]) -> dict[str, str]:
    """The same as options of ``format("seamark")``."""
    kafka = {f"kafka.{name}": str(value) for name, value in config.items()}
    fixed = {"subscribe": TOPIC, "failOnDataLoss": "false", "fetchBytes": str(FETCH_BYTES)}
    return {"kafka.isolation.level": "read_committed", **kafka, **fixed}


def cluster_id(config: Mapping[str, Any]) -> str | None:
    """The id that the cluster gives itself."""
    from seamark.client import Admin

    with Admin(dict(config)) as admin:
        return admin.describe_cluster().cluster_id or None


@contextmanager
def asking(options: ReadOptions) -> Iterator[Cluster]:
    """A connection for planning; what the cluster refuses becomes a sentence about the topic."""
    cluster = KafkaCluster(options.client)
    try:
        yield cluster
    except ClientError as error:
        if is_refusal(str(error)):
            raise TopicNotReadable(str(error)) from None
        raise
    finally:
        cluster.close()


def plan(cluster: Cluster, options: ReadOptions, published: Manifest) -> tuple[str | None, list[TopicTask]]:
    """The topic's id, and a task per partition that has something new; none while nobody has committed yet."""
    found = cluster.topics([TOPIC]).get(TOPIC)
    if found is None:
        if published.covered:
            raise LakeError(
                f"the cluster has no topic {TOPIC}, but the lake has records of it: is this another cluster?"
            )
        log.warning("%s does not exist yet: nothing has been committed on this cluster", TOPIC)
        return published.topic_id, []
    if published.topic_id and found.topic_id and found.topic_id != published.topic_id:
        raise LakeError(
            f"{TOPIC} was recreated (id {published.topic_id} became {found.topic_id}): its offsets do not match "
            "the lake's history; use a new lake in another directory"
        )
    partitions = [TopicPartition(TOPIC, number) for number in found.partitions]
    starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
    tasks = []
    for partition in partitions:
        covered = published.covered.get(partition.partition)
        begin = max(starts[partition], covered.end) if covered else starts[partition]
        if covered and ends[partition] < covered.end:
            raise LakeError(
                f"{partition} ends at offset {ends[partition]}, but the lake has it up to {covered.end}: "
                "it is another cluster, or records were lost"
            )
        if begin < ends[partition]:
            wanted = OffsetRange(partition, found.topic_id, begin, ends[partition])
            tasks.append(TopicTask(partition.partition, before_of(published, partition.partition), wanted, options))
    # The longest first: what is left at the end then is short.
    tasks.sort(key=lambda task: task.wanted.size, reverse=True)
    return found.topic_id or published.topic_id, tasks


def before_of(published: Manifest, partition: int) -> Before:
    """What a task of the partition goes on from."""
    keys, groups = (
        tuple(file.path for file in published.files(table) if file.part == partition)
        for table in ("state_keys", "state_groups")
    )
    looks = tuple(file.path for file in published.files("group_states")[-_LOOKS:])
    return Before(published.covered.get(partition), keys, groups, looks)


def publish_reports(lake: Lake, reports: Sequence[Report], **changed: Any) -> None:
    """Make what the tasks wrote the lake's next version."""
    added: dict[str, list[File]] = {}
    for report in reports:
        for table, file in report.files:
            added.setdefault(table, []).append(file)
    covered = {report.partition: report.covered for report in reports}
    if len(covered) != len(reports):
        raise LakeJobFailed("a partition of the offsets topic was read by two tasks; nothing was published")
    lake.publish(added, covered=covered, **changed)
    if "rejects" in added:
        log.warning("%s", rejects_told(lake.path, added["rejects"]))


def rejects_told(root: Path, files: Iterable[File]) -> str:
    """How many records could not be read, of which kinds, and where the first of them is."""
    import pyarrow.parquet as pq

    kinds: Counter[str] = Counter()
    first: tuple[int, int] | None = None
    for file in files:
        rows = pq.ParquetFile(root / file.path).read(columns=["offsets_partition", "offsets_offset", "reason"])
        for each in rows.column("reason").value_counts().to_pylist():
            # Reasons have numbers out of the record in them: there may be as many as there are records.
            kind = each["values"] if each["values"] in kinds or len(kinds) < _REJECTED_KINDS else "others"
            kinds[kind] += each["counts"]
        least = rows.sort_by([("offsets_partition", "ascending"), ("offsets_offset", "ascending")]).slice(0, 1)
        [place] = zip(*(least.column(name).to_pylist() for name in least.column_names[:2]), strict=True)
        first = place if first is None else min(first, place)
    assert first is not None
    told = "; ".join(f"{count} of them: {kind}" for kind, count in kinds.most_common())
    return (
        f"{counted(kinds.total(), 'record')} of {TOPIC} cannot be decoded and are in the table rejects ({told}); "
        f"the first is in partition {first[0]} at offset {first[1]}"
    )


def summary_of(reports: Sequence[Report], seconds: float, version: int) -> RunSummary:
    rows: dict[str, int] = {}
    for report in reports:
        for table, file in report.files:
            if not table.startswith("state_"):
                rows[table] = rows.get(table, 0) + file.rows
    return RunSummary(sum(report.records for report in reports), rows, seconds, version)


__all__ = ["RunSummary", "run"]
