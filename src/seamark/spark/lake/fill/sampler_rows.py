"""The rows of one look: what the coordinators say, as columns of ``group_states``, ``log_ends``, ``lag``, ``commits``.

Runs inside a task. Requests are batched by the admin client; the age of the first unread record is read for some
partitions and is a lower bound for the others. Whatever does not answer is left out of ``log_ends``, has a lag of null,
and is counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from seamark.client import Admin
from seamark.client.admin.record_times import LogPlace
from seamark.client.errors import ClientError
from seamark.plans.cluster_reading import read_logs
from seamark.plans.plan import LogRange
from seamark.rules.ages import ages_at
from seamark.rules.lag import lag_of
from seamark.rules.time_lag import TimeLag
from seamark.rules.time_probe import Places
from seamark.spark.lake.decode.decode import done_ahead_column
from seamark.spark.lake.fill.reports import SAMPLED, Look
from seamark.spark.lake.tables.files import LakeFiles
from seamark.spark.lake.tables.schemas import file_schema
from seamark.topic_partition import TopicPartition

_UNIT = pa.timestamp("ms", tz="UTC")
# Records that one look reads to know their age, and how long that may take.
_MOST_READS = 128
_READ_TIMEOUT_S = 5.0


class GroupOffset(NamedTuple):
    """Where a group stands in one partition."""

    group: str
    partition: TopicPartition
    offset: int | None
    leader_epoch: int
    metadata: str


def write_look(root: str, config: Mapping[str, Any], kept: tuple[str, ...] | None) -> Look:
    """Look once and write the files; ``kept`` is the state of the last look, None to leave ``commits`` alone."""
    with Admin(dict(config)) as admin:
        described = admin.describe_groups(None)
        committed = admin.list_group_offsets(list(described))
        standings = [
            GroupOffset(group, TopicPartition(*partition), at.offset, at.leader_epoch, at.metadata or "")
            for group, offsets in committed.items()
            for partition, at in offsets.items()
            if at.offset >= 0
        ]
        known = {(standing.group, standing.partition) for standing in standings}
        standings += [
            GroupOffset(group, partition, None, -1, "")
            for group, description in described.items()
            if group in committed
            for partition in sorted({assigned for member in description.members for assigned in member.assignment})
            if (group, partition) not in known
        ]
        now_ms = round(time.time() * 1000)
        logs, unreadable = read_logs(admin, sorted({standing.partition for standing in standings}))
        ages = _ages(admin, standings, logs, now_ms)
    files = LakeFiles(root)
    states = [
        {
            "group": group, "type": description.type, "state": description.state, "protocol": description.assignor,
            "members": len(description.members), "coordinator": description.coordinator.id,
        }
        for group, description in described.items()
    ]  # fmt: skip
    ends = [
        {"topic": partition.topic, "partition": partition.partition, "log_start": log.log_start, "log_end": log.log_end}
        for partition, log in logs.items()
    ]
    lags = [
        _lag_row(standing, logs.get(standing.partition), ages.get(standing.partition, {})) for standing in standings
    ]
    for table, rows in (("group_states", states), ("log_ends", ends), ("lag", lags)):
        _add(files, table, rows, now_ms)
    if kept is not None:
        unread = {*described.errors, *committed.errors}
        _add_commits(files, root, kept, standings, unread, now_ms)
    unknown = len(described.errors) + len(committed.errors) + len(unreadable)
    return Look(now_ms, len(described), unknown, list(files.finish()))


def _ages(
    admin: Admin, standings: list[GroupOffset], logs: Mapping[TopicPartition, LogRange], now_ms: int
) -> dict[TopicPartition, dict[int, TimeLag]]:
    """How old the records are at which groups stand; groups at the same offset are asked for once."""
    positions: dict[TopicPartition, set[int]] = {}
    for standing in standings:
        log = logs.get(standing.partition)
        if log is not None and standing.offset is not None and standing.offset <= log.log_end:
            positions.setdefault(standing.partition, set()).add(max(standing.offset, log.log_start))

    def read(places: Sequence[tuple[TopicPartition, int]]) -> dict[tuple[TopicPartition, int], int | None]:
        try:
            times = admin.record_times((LogPlace(*place) for place in places), timeout=_READ_TIMEOUT_S)
        except ClientError:
            # Then all ages are lower bounds, and ``method`` says so.
            return {}
        return {(place.partition, place.offset): at_ms for place, at_ms in times.items()}

    places = {partition: Places(some, logs[partition].log_end) for partition, some in positions.items()}
    return ages_at(places, now_ms, read=read, ask=admin.list_offsets, most_reads=_MOST_READS)


def _lag_row(standing: GroupOffset, log: LogRange | None, ages: Mapping[int, TimeLag]) -> dict[str, Any]:
    log_start, log_end = (None, None) if log is None else log
    row: dict[str, Any] = {
        "group": standing.group, "topic": standing.partition.topic, "partition": standing.partition.partition,
        "committed": standing.offset, "log_start": log_start, "log_end": log_end,
        "lag": lag_of(standing.offset, log_start, log_end).records,
    }  # fmt: skip
    age = None if standing.offset is None else ages.get(max(standing.offset, log_start or 0))
    if age is not None:
        error_ms = 0 if age.is_exact else None
        row |= {"time_lag_ms": round(age.seconds * 1000), "time_lag_error_ms": error_ms, "method": age.method}
    return row


def _add(files: LakeFiles, table: str, rows: list[dict[str, Any]], now_ms: int) -> None:
    schema = file_schema(table)
    made = pa.Table.from_pylist(rows, schema=pa.schema([field for field in schema if field.name != "time"]))
    stamped = made.add_column(0, "time", pa.repeat(pa.scalar(now_ms, pa.int64()), len(rows)).cast(_UNIT))
    files.add(table, stamped.select(schema.names), [now_ms] * len(rows))


def _add_commits(
    files: LakeFiles, root: str, kept: tuple[str, ...], standings: list[GroupOffset], unread: set[str], now_ms: int
) -> None:
    """What has changed since the last look, and what the next one compares with.

    Of a group that could not be read this time the last look goes on to stand: its offsets are not gone.
    """
    before: dict[tuple[str, str, int], tuple[int, int]] = {}
    for path in kept:
        for row in pq.ParquetFile(f"{root}/{path}").read().to_pylist():
            before[row["group"], row["topic"], row["partition"]] = (row["offset"], row["commit_ms"])
    rows, state = [], []
    here = set()
    for standing in standings:
        if standing.offset is None:
            continue
        key = (standing.group, standing.partition.topic, standing.partition.partition)
        here.add(key)
        offset, since_ms = before.get(key, (None, None))
        if offset != standing.offset:
            rows.append(_commit_row(key, standing, offset, since_ms, now_ms))
            since_ms = now_ms
        state.append(_state_row(key, standing.offset, since_ms))
    for key, (offset, since_ms) in before.items():
        if key[0] in unread:
            here.add(key)
            state.append(_state_row(key, offset, since_ms))
    gone = GroupOffset("", TopicPartition("", 0), None, -1, "")
    rows += [_commit_row(key, gone, before[key][0], before[key][1], now_ms) for key in sorted(set(before) - here)]
    schema = file_schema("commits")
    made = pa.Table.from_pylist(rows, schema=pa.schema([field for field in schema if field.name != "done_ahead"]))
    if rows:
        offsets = [row["offset"] if row["offset"] is not None else -1 for row in rows]
        ahead = done_ahead_column(made["metadata"].combine_chunks(), offsets)
        made = made.append_column("done_ahead", ahead).select(schema.names)
        files.add("commits", made, [now_ms] * len(rows))
    files.add_state("state_keys", pa.Table.from_pylist(state, schema=file_schema("state_keys")), SAMPLED)


def _commit_row(
    key: tuple[str, str, int], standing: GroupOffset, previous: int | None, since_ms: int | None, now_ms: int
) -> dict[str, Any]:
    is_gone = standing.offset is None
    has_delta = not is_gone and previous is not None
    return {
        "offsets_partition": SAMPLED, "offsets_offset": None, "group": key[0], "topic": key[1], "partition": key[2],
        "offset": standing.offset, "leader_epoch": None if is_gone else standing.leader_epoch,
        "metadata": None if is_gone else standing.metadata, "commit_time": None if is_gone else now_ms,
        "append_time": now_ms, "expire_time": None, "tombstone": is_gone, "previous_offset": previous,
        "delta": standing.offset - previous if has_delta else None,  # type: ignore[operator]
        "since_previous_ms": now_ms - since_ms if has_delta and since_ms is not None else None,
        "generation": None, "owner": None, "owner_client": None, "owner_host": None, "origin": "unknown",
        "inferred": True, "complete": False,
    }  # fmt: skip


def _state_row(key: tuple[str, str, int], offset: int, since_ms: int | None) -> dict[str, Any]:
    return {
        "offsets_partition": SAMPLED, "group": key[0], "topic": key[1], "partition": key[2], "seen_at": 0,
        "offset": offset, "commit_ms": since_ms,
    }  # fmt: skip
