"""The history of one partition of the offsets topic: each record with what was there before it.

Batches are taken in the order of their offsets and come back as rows of the lake's tables. What the next batch, or the
next run, has to know is kept: the last record of every key and of every group, and where the offsets had holes. It is
written as state tables and recalled from them, so a run goes on exactly where the last one ended.

Inferred columns: a commit's generation and owner are those of the group record last seen before it in this partition,
its origin is ``member`` where that record assigned the partition to somebody, ``outside`` where it did not or the group
had no members, ``unknown`` where no group record was seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from seamark.spark.lake.decode import decode
from seamark.spark.lake.decode.decode import Records
from seamark.spark.lake.history import kernels
from seamark.spark.lake.history.generations import MEMBERS, assignments, joined_and_gone, lake_members
from seamark.spark.lake.history.names import Names, Numbers, People, grown
from seamark.spark.lake.tables.files import times
from seamark.spark.lake.tables.manifest import Covered
from seamark.spark.lake.tables.schemas import file_schema
from seamark.wire.columns.compiler import compiled
from seamark.wire.columns.offsets_columns import OffsetsColumns

Rows = dict[str, list[tuple[pa.Table, Any]]]

_ORIGINS = pa.array(["unknown", "outside", "member"])
_AS_DECODED = ("group", "topic", "partition", "offset", "leader_epoch", "metadata")
_FIRST_ROOM = 1 << 12


class History:
    """``covered`` is what earlier runs have taken of the partition; None for the first."""

    def __init__(self, partition: int, covered: Covered | None = None) -> None:
        self.partition = partition
        self._begin = covered.begin if covered else None
        self._end = covered.end if covered else -1
        self._marks = np.zeros(kernels.MARKS, np.int64)
        self._marks[kernels.EXPECTED] = covered.expected if covered else 0
        self._marks[kernels.GAP] = covered.gap if covered else -1
        self._groups, self._topics = Names(), Names()
        self._people = People()
        self._slots = np.zeros((kernels.SLOT_FIELDS, _FIRST_ROOM), np.int64)
        self._index = np.full(2 * _FIRST_ROOM, -1, np.int64)
        self._standings = _no_groups(_FIRST_ROOM)
        # Members in the last record of each group, and where among them each group's are.
        self._members = pa.chunked_array([], MEMBERS)
        self._place = Numbers(-1)

    @property
    def end(self) -> int:
        """The offset behind what was taken."""
        return self._end

    def reached(self, begin: int, end: int) -> Covered:
        """What is covered once everything from ``begin`` up to ``end`` has been taken."""
        self._begin = begin if self._begin is None else self._begin
        self._end = max(self._end, end)
        return Covered(self._begin, self._end, int(self._marks[kernels.EXPECTED]), int(self._marks[kernels.GAP]))

    # -- records

    def take(self, records: Records) -> Rows:
        """The rows of the lake's tables; records that were taken before are left out."""
        records = records.behind(self._end)
        count = len(records.offsets)
        if not count:
            return {}
        self._begin = int(records.offsets[0]) if self._begin is None else self._begin
        self._end = int(records.offsets[-1]) + 1
        columns = records.decoded()
        table = np.zeros((kernels.RECORD_FIELDS, count), np.int64)
        table[kernels.AT] = records.offsets
        self._fill_commits(table, columns)
        members = lake_members(columns.groups.column("members"))
        assigned = self._fill_groups(table, columns, members)
        derived = self._follow(table, assigned)
        rows: Rows = {
            "commits": [self._commit_rows(records, columns, table, derived)],
            "generations": [self._generation_rows(records, columns, members, derived)],
            "rejects": [decode.rejects(columns, records, self.partition)],
        }
        if columns.newer.num_rows:
            for name, made in decode.newer(columns, records, self.partition).items():
                rows.setdefault(name, []).append(made)
        self._people.keep(self._slots[:, : self._marks[kernels.SLOTS]], self._standings)
        return rows

    def _fill_commits(self, table: Any, columns: OffsetsColumns) -> None:
        commits = columns.commits
        rows = _numbers(commits.column("row"))
        is_commit = np.asarray(commits.column("is_commit"))
        table[kernels.KIND, rows] = np.where(is_commit, kernels.COMMIT, kernels.COMMIT_TOMBSTONE)
        table[kernels.OF_GROUP, rows] = self._groups.numbers(commits.column("group"))
        table[kernels.TOPIC, rows] = self._topics.numbers(commits.column("topic"))
        table[kernels.PARTITION, rows] = _numbers(commits.column("partition"))
        table[kernels.OFFSET, rows] = _numbers(commits.column("offset"))
        table[kernels.COMMIT_MS, rows] = _numbers(commits.column("commit_ms"))

    def _fill_groups(self, table: Any, columns: OffsetsColumns, members: pa.Array) -> Any:
        """The table of what is assigned, and the group records' part of the table of records."""
        groups = columns.groups
        rows = _numbers(groups.column("row"))
        if not len(rows):
            return np.zeros((kernels.ASSIGNED_FIELDS, 0), np.int64)
        is_group = np.asarray(groups.column("is_group"))
        table[kernels.KIND, rows] = np.where(is_group, kernels.GROUP, kernels.GROUP_TOMBSTONE)
        table[kernels.OF_GROUP, rows] = self._groups.numbers(groups.column("group"))
        table[kernels.GENERATION, rows] = _numbers(groups.column("generation"))
        return self._assign(table, rows, members)

    def _assign(self, table: Any, rows: Any, members: pa.Array) -> Any:
        given = assignments(members)
        counts = np.bincount(given.record, minlength=len(rows)) if len(given.record) else np.zeros(len(rows), np.int64)
        stops = np.cumsum(counts)
        table[kernels.FIRST, rows], table[kernels.STOP, rows] = stops - counts, stops
        table[kernels.MEMBERS, rows] = _numbers(members.value_lengths())
        assigned = np.zeros((kernels.ASSIGNED_FIELDS, len(given.member)), np.int64)
        assigned[kernels.ASSIGNED_TOPIC] = self._topics.numbers(given.topics)
        assigned[kernels.ASSIGNED_PARTITION] = given.partitions
        assigned[kernels.ASSIGNED_MEMBER] = given.member + self._people.add(members)
        return assigned

    def _follow(self, table: Any, assigned: Any) -> Any:
        self._make_room(table.shape[1] + assigned.shape[1])
        derived = np.zeros((kernels.FOUND_FIELDS, table.shape[1]), np.int64)
        compiled(kernels, "follow")(table, assigned, self._slots, self._index, self._standings, self._marks, derived)
        return derived

    def _make_room(self, count: int) -> None:
        if len(self._groups) > self._standings.shape[1]:
            room = _no_groups(2 * len(self._groups))
            room[:, : self._standings.shape[1]] = self._standings
            self._standings = room
        used = int(self._marks[kernels.SLOTS])
        if used + count <= self._slots.shape[1]:
            return
        kept = np.ascontiguousarray(self._slots[:, :used])
        self._slots = np.zeros((kernels.SLOT_FIELDS, grown(used + count)), np.int64)
        self._index = np.full(2 * self._slots.shape[1], -1, np.int64)
        self._marks[kernels.SLOTS] = 0
        compiled(kernels, "recall")(kept, self._index, self._marks, self._slots)

    # -- rows

    def _commit_rows(self, records: Records, columns: OffsetsColumns, table: Any, derived: Any) -> tuple[pa.Table, Any]:
        commits = columns.commits
        rows = _numbers(commits.column("row"))
        table, derived = table[:, rows], derived[:, rows]
        is_gone = table[kernels.KIND] == kernels.COMMIT_TOMBSTONE
        has_none = derived[kernels.HAS_PREVIOUS] == 0
        no_delta = has_none | is_gone
        owners = self._people.named(derived[kernels.FOUND_OWNER])
        generation = derived[kernels.FOUND_GENERATION]
        made = {
            "offsets_partition": pa.repeat(pa.scalar(self.partition, pa.int32()), len(rows)),
            "offsets_offset": pa.array(records.offsets[rows]),
            **{name: commits.column(name) for name in _AS_DECODED},
            "commit_time": times(table[kernels.COMMIT_MS], is_gone),
            "append_time": times(records.times_ms[rows]),
            "expire_time": times(_numbers(commits.column("expire_ms")), is_gone),
            "tombstone": pa.array(is_gone),
            "done_ahead": decode.done_ahead_column(commits.column("metadata"), table[kernels.OFFSET]),
            "previous_offset": pa.array(derived[kernels.PREVIOUS_OFFSET], mask=has_none),
            "delta": pa.array(table[kernels.OFFSET] - derived[kernels.PREVIOUS_OFFSET], mask=no_delta),
            "since_previous_ms": pa.array(table[kernels.COMMIT_MS] - derived[kernels.PREVIOUS_MS], mask=no_delta),
            "generation": pa.array(
                np.where(generation == kernels.NO_GENERATION, 0, generation).astype(np.int32),
                mask=generation == kernels.NO_GENERATION,
            ),
            **owners,
            "origin": _ORIGINS.take(pa.array(derived[kernels.ORIGIN])),
            "inferred": pa.repeat(True, len(rows)),
            "complete": pa.array(derived[kernels.COMPLETE] == 1),
        }  # fmt: skip
        return pa.table(made, schema=file_schema("commits")), records.times_ms[rows]

    def _generation_rows(
        self, records: Records, columns: OffsetsColumns, members: pa.Array, derived: Any
    ) -> tuple[pa.Table, Any]:
        groups = columns.groups
        rows = _numbers(groups.column("row"))
        schema = file_schema("generations")
        if not len(rows):
            return schema.empty_table(), rows
        joined, gone = self._changes(self._groups.numbers(groups.column("group")), members)
        made = {
            **decode.place(rows, records, self.partition),
            **{name: groups.column(name) for name in ("group", "protocol_type", "protocol", "generation", "leader")},
            "members": members,
            "joined": joined,
            "gone": gone,
            "tombstone": pa.array(~np.asarray(groups.column("is_group"))),
            "complete": pa.array(derived[kernels.COMPLETE, rows] == 1),
            "duration_ms": pa.nulls(len(rows), pa.int64()),
        }
        return pa.table(made, schema=schema), records.times_ms[rows]

    def _changes(self, groups: Any, members: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Who joined and who is gone per record, and the members remembered for the next batch."""
        count = len(groups)
        order = np.argsort(groups, kind="stable")
        before = np.full(count, -1, np.int64)
        is_same = groups[order][1:] == groups[order][:-1]
        before[order[1:][is_same]] = order[:-1][is_same]
        first_ones = np.flatnonzero(before < 0)
        places = self._place.of(groups[first_ones], len(self._groups))
        has_earlier = places >= 0
        earlier = self._members.take(pa.array(places[has_earlier]))
        before[first_ones[has_earlier]] = count + np.arange(int(has_earlier.sum()))
        together = pa.concat_arrays([members, *earlier.chunks])
        joined, gone = joined_and_gone(together, np.append(before, np.full(len(together) - count, -1)))
        self._remember(groups, members)
        return joined.slice(0, count), gone.slice(0, count)

    def _remember(self, groups: Any, members: pa.Array) -> None:
        place = len(self._members)
        self._members = pa.chunked_array([*self._members.chunks, members])
        # Assignments in order: of records of the same group the last one stays.
        self._place.put(groups, place + np.arange(len(groups)), len(self._groups))
        if len(self._members) > 2 * len(self._groups) + _FIRST_ROOM:
            known = np.flatnonzero(self._place.all >= 0)
            self._members = self._members.take(pa.array(self._place.all[known]))
            self._place.put(known, np.arange(len(known)), len(self._groups))

    # -- state

    def state(self) -> dict[str, pa.Table]:
        """What the next run has to recall."""
        slots = self._slots[:, : self._marks[kernels.SLOTS]]
        slots = slots[:, slots[kernels.SEEN_AT] >= 0]
        is_gone = slots[kernels.IS_GONE] == 1
        keys = {
            "offsets_partition": pa.repeat(pa.scalar(self.partition, pa.int32()), slots.shape[1]),
            "group": self._groups.texts(slots[kernels.SLOT_GROUP]),
            "topic": self._topics.texts(slots[kernels.SLOT_TOPIC]),
            "partition": pa.array(slots[kernels.SLOT_PARTITION]).cast(pa.int32()),
            "seen_at": pa.array(slots[kernels.SEEN_AT]),
            "offset": pa.array(slots[kernels.LAST_OFFSET], mask=is_gone),
            "commit_ms": pa.array(slots[kernels.LAST_MS], mask=is_gone),
        }
        known = np.flatnonzero(self._place.all[: len(self._groups)] >= 0)
        standings = self._standings[:, known]
        generation = standings[kernels.LAST_GENERATION]
        groups = {
            "offsets_partition": pa.repeat(pa.scalar(self.partition, pa.int32()), len(known)),
            "seen_at": pa.array(standings[kernels.GROUP_SEEN_AT]),
            "group": self._groups.texts(known),
            "generation": pa.array(
                np.where(generation == kernels.NO_GENERATION, 0, generation).astype(np.int32),
                mask=generation == kernels.NO_GENERATION,
            ),
            "members": self._members.take(pa.array(self._place.all[known])),
        }
        return {
            "state_keys": pa.table(keys, schema=file_schema("state_keys")),
            "state_groups": pa.table(groups, schema=file_schema("state_groups")),
        }

    def recall(self, keys: pa.Table, groups: pa.Table) -> None:
        """Take up what an earlier run kept; call it before the first batch."""
        keys, groups = keys.combine_chunks(), groups.combine_chunks()
        kept = np.zeros((kernels.SLOT_FIELDS, keys.num_rows), np.int64)
        if keys.num_rows:
            kept[kernels.SLOT_GROUP] = self._groups.numbers(_one(keys["group"]))
            kept[kernels.SLOT_TOPIC] = self._topics.numbers(_one(keys["topic"]))
            kept[kernels.SLOT_PARTITION] = _numbers(_one(keys["partition"]))
            kept[kernels.SEEN_AT] = _numbers(_one(keys["seen_at"]))
            kept[kernels.IS_GONE] = np.asarray(_one(keys["offset"]).is_null())
            kept[kernels.LAST_OFFSET] = _numbers(_one(keys["offset"]))
            kept[kernels.LAST_MS] = _numbers(_one(keys["commit_ms"]))
            self._make_room(keys.num_rows)
            compiled(kernels, "recall")(kept, self._index, self._marks, self._slots)
        if groups.num_rows:
            self._recall_groups(groups)

    def _recall_groups(self, groups: pa.Table) -> None:
        """Let the groups' last records pass again; holes are not looked for, since they were found by then."""
        members = _one(groups["members"])
        rows = np.arange(groups.num_rows)
        is_gone = np.asarray(_one(groups["generation"]).is_null())
        numbers = self._groups.numbers(_one(groups["group"]))
        table = np.zeros((kernels.RECORD_FIELDS, groups.num_rows), np.int64)
        table[kernels.AT] = _numbers(_one(groups["seen_at"]))
        table[kernels.KIND] = np.where(is_gone, kernels.GROUP_TOMBSTONE, kernels.GROUP)
        table[kernels.OF_GROUP] = numbers
        table[kernels.GENERATION] = _numbers(_one(groups["generation"]))
        assigned = self._assign(table, rows, members)
        holes = self._marks[[kernels.EXPECTED, kernels.GAP]].copy()
        self._marks[kernels.EXPECTED] = np.iinfo(np.int64).max - 1
        self._follow(table, assigned)
        self._marks[[kernels.EXPECTED, kernels.GAP]] = holes
        self._remember(numbers, members)


def _numbers(column: pa.Array) -> Any:
    return np.asarray(column.fill_null(0) if column.null_count else column, np.int64)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _no_groups(room: int) -> Any:
    standings = np.zeros((kernels.GROUP_FIELDS, room), np.int64)
    standings[kernels.GROUP_SEEN_AT] = -1
    return standings
