"""What the rules look at, as one stream of rows per group: commits, deletions, looks at the logs, generations.

Spark brings the rows of a group together and sorts them; ``findings_of_events`` turns each stretch of them into a
history and asks the rules. It holds one group at a time, so a task's memory is that of its largest group. Rows of one
kind and partition come in the order they were stored (``place``), which is what the rules want, whatever clocks said.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from seamark.rules.findings import (
    Commit,
    Deletion,
    Finding,
    Generation,
    GroupHistory,
    LogSample,
    Parameters,
    PartitionHistory,
    findings_of,
    severity_of,
)
from seamark.spark.lake.findings.epochs import epochs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

COMMIT, DELETION, SAMPLE, GENERATION = range(4)
SORTED_BY = ("group", "kind", "topic", "partition", "place")

# What ``findings_of_events`` gives back; times are milliseconds here, so that no session's time zone plays a part.
FOUND = (
    "first_ms long, last_ms long, kind string, group string, topic string, partition int, severity string, text string,"
    " evidence string"
)
_FINDINGS_AT_ONCE = 10_000


def events(commits: DataFrame, generations: DataFrame, modern_groups: DataFrame, log_ends: DataFrame) -> DataFrame:
    """The rows of all groups, one form for all kinds; a look at a log goes to every group that reads the partition."""
    from pyspark.sql import functions as F

    # A partition's bytes of metadata count, not its characters; a range that was done ahead is [start, end).
    stored = commits.where("tombstone or offset is not null").select(
        "group", "topic", "partition",
        F.when(F.col("tombstone"), DELETION).otherwise(COMMIT).cast("int").alias("kind"),
        F.coalesce("offsets_offset", F.unix_millis("append_time")).alias("place"),
        F.unix_millis(F.coalesce("commit_time", "append_time")).alias("at_ms"),
        F.col("offset").alias("low"),
        F.coalesce(F.unix_millis("expire_time"), F.lit(-1)).cast("long").alias("high"),
        F.when(F.col("origin").isin("member", "outside"), F.col("origin")).alias("origin"),
        F.coalesce(F.octet_length("metadata"), F.lit(0)).cast("long").alias("size"),
        F.expr("coalesce(aggregate(done_ahead, 0L, (sum, each) -> sum + each.end - each.start), 0L)").alias("ahead"),
        F.coalesce("complete", F.lit(False)).alias("is_complete"),
        F.lit(None).cast("string").alias("assigned"),
    )  # fmt: skip
    # A newer group's assignments name topics by their ids only; so nothing is said about what it was assigned.
    alive = generations.where("not coalesce(tombstone, false)")
    of_members = F.expr("flatten(transform(members, member -> coalesce(member.assigned, array())))").alias("assigned")
    given = alive.select("group", "offsets_offset", of_members)
    # As text: Spark looks at all lists of a batch again for each row that it adds, a hundred times what the rest costs.
    begun = epochs(generations, modern_groups).join(given, ["group", "offsets_offset"], "left").select(
        "group", F.lit("").alias("topic"), F.lit(-1).alias("partition"), F.lit(GENERATION).alias("kind"),
        F.col("offsets_offset").alias("place"), "at_ms", F.col("generation").alias("low"),
        F.col("members").alias("high"), F.lit(None).cast("string").alias("origin"),
        F.lit(0).cast("long").alias("size"), F.lit(0).cast("long").alias("ahead"), F.lit(True).alias("is_complete"),
        F.to_json("assigned").alias("assigned"),
    )  # fmt: skip
    assigned = (
        given.select("group", F.explode("assigned").alias("of_topic"))
        .select("group", "of_topic.topic", F.explode("of_topic.partitions").alias("partition"))
    )  # fmt: skip
    readers = commits.select("group", "topic", "partition").union(assigned).distinct()
    looks = readers.join(log_ends.select("topic", "partition", "time", "log_start", "log_end"), ["topic", "partition"])
    seen = looks.select(
        "group", "topic", "partition", F.lit(SAMPLE).alias("kind"), F.unix_millis("time").alias("place"),
        F.unix_millis("time").alias("at_ms"), F.col("log_start").alias("low"), F.col("log_end").alias("high"),
        F.lit(None).cast("string").alias("origin"), F.lit(0).cast("long").alias("size"),
        F.lit(0).cast("long").alias("ahead"), F.lit(True).alias("is_complete"),
        F.lit(None).cast("string").alias("assigned"),
    )  # fmt: skip
    # A record whose times no calendar holds has no place in a history.
    return stored.unionByName(begun).unionByName(seen).where(F.col("at_ms").isNotNull() & F.col("place").isNotNull())


def findings_of_events(batches: Iterable[pa.RecordBatch], parameters: Parameters) -> Iterator[pa.RecordBatch]:
    """The findings of every group in rows sorted by ``SORTED_BY``."""
    findings: list[Finding] = []
    for history in histories(batches):
        findings += findings_of(history, parameters)
        if len(findings) >= _FINDINGS_AT_ONCE:
            yield _as_batch(findings)
            findings = []
    yield _as_batch(findings)


def histories(batches: Iterable[pa.RecordBatch]) -> Iterator[GroupHistory]:
    """One group's history after the other; a stretch of rows may go on in the next batch.

    A partition's history ends with the last look at its log: nobody knows what was there to read after it.
    """
    gathering: _Gathering | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        groups, kinds = columns["group"], columns["kind"]
        topics, partitions = columns["topic"], columns["partition"]
        start = 0
        for end in _ends_of_stretches(batch):
            group = groups[start]
            if gathering is None or gathering.group != group:
                if gathering is not None:
                    yield gathering.history()
                gathering = _Gathering(group)
            gathering.take(kinds[start], (topics[start], partitions[start]), columns, slice(start, end))
            start = end
    if gathering is not None:
        yield gathering.history()


def _ends_of_stretches(batch: pa.RecordBatch) -> list[int]:
    """Where rows of one group, kind and partition end."""
    import pyarrow.compute as pc

    ends: set[int] = set()
    for name in ("group", "kind", "topic", "partition"):
        ends.update(pc.run_end_encode(batch.column(name)).run_ends.to_pylist())
    return sorted(ends)


class _Gathering:
    """The history of one group as its rows come in."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._generations: list[Generation] = []
        self._commits: dict[tuple[str, int], list[Commit]] = {}
        self._deletions: dict[tuple[str, int], list[Deletion]] = {}
        self._samples: dict[tuple[str, int], list[LogSample]] = {}

    def take(self, kind: int, partition: tuple[str, int], columns: dict[str, list[Any]], rows: slice) -> None:
        times, lows, highs = columns["at_ms"][rows], columns["low"][rows], columns["high"][rows]
        if kind == COMMIT:
            others = (columns[name][rows] for name in ("origin", "size", "ahead"))
            complete = columns["is_complete"][rows]
            self._commits.setdefault(partition, []).extend(map(Commit, times, lows, *others, highs, complete))
        elif kind == DELETION:
            complete = columns["is_complete"][rows]
            self._deletions.setdefault(partition, []).extend(map(Deletion, times, complete))
        elif kind == SAMPLE:
            self._samples.setdefault(partition, []).extend(map(LogSample, times, lows, highs))
        else:
            assigned = map(_assigned, columns["assigned"][rows])
            self._generations.extend(map(Generation, times, lows, highs, assigned))

    def history(self) -> GroupHistory:
        known = sorted(self._commits.keys() | self._deletions.keys() | self._samples.keys())
        partitions = [
            PartitionHistory(
                self.group, *partition, self._last_known_ms(partition), self._commits.get(partition, ()),
                self._deletions.get(partition, ()), self._samples.get(partition, ()),
            )
            for partition in known
        ]  # fmt: skip
        ends = [partition.now_ms for partition in partitions]
        begun = [generation.at_ms for generation in self._generations]
        return GroupHistory(self.group, max(ends or begun, default=0), partitions, self._generations)

    def _last_known_ms(self, partition: tuple[str, int]) -> int:
        if samples := self._samples.get(partition):
            return samples[-1].at_ms
        ends = [commit.at_ms for commit in self._commits.get(partition, [])[-1:]]
        return max(ends + [deletion.at_ms for deletion in self._deletions.get(partition, [])[-1:]])


def _assigned(text: str | None) -> frozenset[tuple[str, int]]:
    topics = json.loads(text) if text else ()
    return frozenset((topic["topic"], index) for topic in topics for index in topic.get("partitions", ()))


def _as_batch(findings: list[Finding]) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [
        pa.array([finding.from_ms for finding in findings], pa.int64()),
        pa.array([finding.until_ms for finding in findings], pa.int64()),
        pa.array([finding.kind for finding in findings], pa.string()),
        pa.array([finding.group for finding in findings], pa.string()),
        pa.array([finding.topic for finding in findings], pa.string()),
        pa.array([finding.partition for finding in findings], pa.int32()),
        pa.array([severity_of(finding.kind) for finding in findings], pa.string()),
        pa.array([finding.sentence for finding in findings], pa.string()),
        pa.array([_evidence(finding) for finding in findings], pa.string()),
    ]
    names = [part.split()[0] for part in FOUND.split(",")]
    return pa.RecordBatch.from_arrays(columns, names)


def _evidence(finding: Finding) -> str:
    told = {"advice": finding.advice, "records": finding.records, **finding.evidence}
    return json.dumps(told, ensure_ascii=False, sort_keys=True)


def parameters_text(parameters: Parameters) -> str:
    """The parameters as they are kept with each finding."""
    return json.dumps(asdict(parameters), sort_keys=True)
