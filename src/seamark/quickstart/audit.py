"""The audit at the end of the story: commits into a lake, findings, a report.

On a broker of its own the whole offsets topic is read; on a given cluster only what was written since the story began:
the lake is told that it has everything before, so that a cluster's long past is neither waited for nor shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seamark.client import Admin, TopicPartition
from seamark.errors import SeamarkError
from seamark.quickstart.outcome import Found
from seamark.quickstart.places import Names, Places
from seamark.rules.findings import Parameters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.quickstart.looks import Looks
    from seamark.spark.lake import Lake

# The story takes seconds where life takes hours: a partition that stands still for so long counts as blocked. What is
# told by a consumer's pace cannot be told in so short a time, least of all on a busy machine: it is not looked for.
_TOO_MANY = 1 << 62
_PARAMETERS = Parameters(stall_ms=3_000, jump_records=_TOO_MANY, slow_records=_TOO_MANY)
_OFFSETS = "__consumer_offsets"


class AuditImpossible(SeamarkError):
    """The cluster does not let its commits be read."""


@dataclass(frozen=True, slots=True)
class Audited:
    commits: int
    generations: int
    found: tuple[Found, ...]


def new_lake(admin: Admin, places: Places, *, from_now: bool) -> Lake:
    """An empty lake of the cluster; with ``from_now`` it begins at what is written from now on.

    AuditImpossible if the offsets topic may not be looked at.
    """
    from seamark.spark.lake import Lake
    from seamark.spark.lake.tables.manifest import Covered

    lake = Lake.create(places.lake, admin.describe_cluster().cluster_id or None)
    offsets = admin.list_topics(include_internal=True).get(_OFFSETS) if from_now else None
    if offsets is not None:
        partitions = [TopicPartition(_OFFSETS, index) for index in offsets.partitions]
        ends = admin.list_offsets(dict.fromkeys(partitions, "latest"))
        for error in ends.errors.values():
            raise AuditImpossible(str(error)) from error
        # Begin, end, the next record expected, and the hole in what is known: all are here.
        covered = {partition.partition: Covered(*[end.offset] * 4) for partition, end in ends.items()}
        with lake.writing():
            lake.publish({}, covered=covered)
    return lake


def audit(
    spark: SparkSession,
    config: Mapping[str, Any],
    names: Names,
    places: Places,
    looks: Looks,
    say: Callable[[str], None],
) -> Audited:
    """Fill the lake, look for findings, write the report; AuditImpossible if no commit can be seen."""
    from seamark.spark.lake import Lake, TopicNotReadable, find, run, write_report

    looks.publish()
    try:
        added = run(spark, places.lake, source="topic", config=config)
    except TopicNotReadable as error:
        raise AuditImpossible(str(error)) from error
    if not added.rows.get("commits"):
        raise AuditImpossible(f"no commits could be read from {_OFFSETS}: grant the READ ACL on it")
    lake = Lake.open(places.lake)
    say("looking for findings")
    find(spark, lake, _PARAMETERS)
    findings = lake.read(spark, "findings").where("group in ({})".format(", ".join(map(_quoted, names.groups))))
    rows = findings.orderBy("first_time", "group", "kind", "topic", "partition").collect()
    say("writing the report")
    write_report(spark, lake, places.report)
    return Audited(
        added.rows["commits"],
        added.rows.get("generations", 0),
        tuple(Found(row["kind"], row["group"], row["topic"], row["partition"], row["text"]) for row in rows),
    )


def _quoted(name: str) -> str:
    return f"'{name}'"
