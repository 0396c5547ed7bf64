"""Lakes made from rows, and the rows that histories of groups would have left: no broker and no job needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from seamark.rules.findings import GroupHistory, Parameters, findings_of
from seamark.spark.lake.tables.files import LakeFiles
from seamark.spark.lake.tables.lake import Lake
from seamark.spark.lake.tables.schemas import file_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
_TIME_OF = {"commits": "append_time", "findings": "first_time"}
_LETTERS = "x" * 100_000


def moment(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)


def lake_of(path: Path, tables: Mapping[str, Iterable[Row]], cluster: str = "test-cluster") -> Lake:
    """A lake with these rows; columns that a row leaves out are null."""
    lake = Lake.create(path, cluster)
    files = LakeFiles(str(lake.path))
    for table, rows in tables.items():
        listed = list(rows)
        columns = pa.Table.from_pylist(listed, file_schema(table))
        times = [row[_TIME_OF.get(table, "time")] for row in listed]
        files.add(table, columns, [0 if each is None else round(each.timestamp() * 1000) for each in times])
    added: dict[str, list[Any]] = {}
    for table, file in files.finish():
        added.setdefault(table, []).append(file)
    with lake.writing():
        lake.publish(added)
    return lake


def commit_row(group: str, topic: str, partition: int, offset: int | None, at_ms: int, place: int, **more: Any) -> Row:
    """A row of ``commits``; without an offset it is a tombstone."""
    return {
        "offsets_partition": 0, "offsets_offset": place, "group": group, "topic": topic, "partition": partition,
        "offset": offset, "leader_epoch": -1, "metadata": None if offset is None else "",
        "commit_time": None if offset is None else moment(at_ms), "append_time": moment(at_ms),
        "tombstone": offset is None, "origin": "member", "inferred": True, "complete": True, **more,
    }  # fmt: skip


def rows_of(histories: Iterable[GroupHistory]) -> dict[str, list[Row]]:
    """The rows that these groups leave in the lake; groups have different names, and each topics of its own."""
    tables: dict[str, list[Row]] = {"commits": [], "generations": [], "log_ends": []}
    for history in histories:
        for partition in history.partitions:
            where = (history.group, f"{history.group}.{partition.topic}", partition.partition)
            stored = [*partition.commits, *partition.deletions]
            order = sorted(range(len(stored)), key=lambda index: stored[index].at_ms)
            # Commits keep the order they were stored in; a deletion finds its place among them by time.
            if [each for each in order if each < len(partition.commits)] != list(range(len(partition.commits))):
                raise ValueError("a history whose clock ran backwards needs rows made by hand")
            previous: int | None = None
            for place, index in enumerate(order):
                each = stored[index]
                if index >= len(partition.commits):
                    tables["commits"].append(
                        commit_row(*where, None, each.at_ms, place, origin="unknown", complete=each.is_complete)
                    )
                    previous = None
                    continue
                tables["commits"].append(
                    commit_row(
                        *where, each.offset, each.at_ms, place, origin=each.origin or "unknown",
                        metadata=_LETTERS[: each.metadata_size], complete=each.is_complete,
                        expire_time=None if each.expire_ms < 0 else moment(each.expire_ms),
                        done_ahead=[{"start": each.offset + 1, "end": each.offset + 1 + each.done_ahead}]
                        if each.done_ahead else None,
                        previous_offset=previous, delta=None if previous is None else each.offset - previous,
                    )
                )  # fmt: skip
                previous = each.offset
            tables["log_ends"] += [
                {
                    "time": moment(look.at_ms), "topic": where[1], "partition": where[2],
                    "log_start": look.log_start, "log_end": look.log_end,
                }
                for look in partition.samples
            ]  # fmt: skip
        for place, generation in enumerate(history.generations):
            assigned: dict[str, list[int]] = {}
            for topic, index in sorted(generation.assigned):
                assigned.setdefault(f"{history.group}.{topic}", []).append(index)
            given = [{"topic": topic, "partitions": indexes} for topic, indexes in assigned.items()]
            members = [
                {"member": f"m{number}", "assigned": given if number == 0 else []}
                for number in range(generation.members)
            ]
            tables["generations"].append(
                {
                    "offsets_partition": 0, "offsets_offset": place, "time": moment(generation.at_ms),
                    "group": history.group, "generation": generation.number, "members": members,
                    "joined": [], "gone": [], "tombstone": False, "complete": True,
                }
            )  # fmt: skip
    return tables


def renamed(history: GroupHistory, group: str) -> GroupHistory:
    """The history as ``rows_of`` leaves it: its topics named after the group, ending with the last look at each log."""
    partitions = [
        replace(each, group=group, topic=f"{group}.{each.topic}", now_ms=each.samples[-1].at_ms)
        for each in history.partitions
    ]
    generations = [
        each._replace(assigned=frozenset((f"{group}.{topic}", index) for topic, index in each.assigned))
        for each in history.generations
    ]
    return GroupHistory(group, max(each.now_ms for each in partitions), partitions, generations)


class Told(NamedTuple):
    """A finding as a row of the table has it."""

    kind: str
    topic: str | None
    partition: int | None
    first: float
    last: float | None
    text: str
    evidence: str


def findings_in(lake: Lake, spark: SparkSession) -> dict[str, set[Told]]:
    """What the table of findings says, per group."""
    found: dict[str, set[Told]] = {}
    for row in lake.read(spark, "findings").collect():
        last = None if row["last_time"] is None else row["last_time"].timestamp()
        told = Told(
            row["kind"], row["topic"], row["partition"], row["first_time"].timestamp(), last, row["text"],
            row["evidence"],
        )  # fmt: skip
        found.setdefault(row["group"], set()).add(told)
    return found


def findings_of_history(history: GroupHistory, parameters: Parameters | None = None) -> set[Told]:
    """What the rules say by themselves."""
    return {
        Told(
            each.kind, each.topic, each.partition, each.from_ms / 1000,
            None if each.until_ms is None else each.until_ms / 1000, each.sentence,
            json.dumps({"advice": each.advice, "records": each.records, **each.evidence}, sort_keys=True),
        )
        for each in findings_of(history, parameters)
    }  # fmt: skip
