"""Records of ``__consumer_offsets`` as Arrow columns, without a Python object per record. Needs ``seamark[arrow]``.

One call takes the keys and values of many records and sorts them: commits and their deletions, classic groups with
their members and assignments, records of the newer protocols by name, and rejects with their reason. Each row carries
``row``, the number of its record in what was given, so that offsets and timestamps can be joined on again. The compiled
loops take what is plain; ``decode_entry`` decides about the rest, so both readers always say the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from seamark.errors import MissingExtra
from seamark.wire.offsets import offsets_topic

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from seamark.wire.columns import offsets_kernels as kernels
    from seamark.wire.columns.compiler import compiled
except ImportError as missing:
    raise MissingExtra("decoding __consumer_offsets to Arrow columns", "arrow") from missing

COMMITS = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("group", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        # False for a deletion; then everything below is null.
        pa.field("is_commit", pa.bool_()),
        pa.field("offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("metadata", pa.string()),
        pa.field("commit_ms", pa.int64()),
        pa.field("expire_ms", pa.int64()),
        pa.field("value_version", pa.int16()),
        pa.field("topic_id", pa.binary()),
    ]
)
ASSIGNED = pa.struct([pa.field("topic", pa.string()), pa.field("partition", pa.int32())])
MEMBER = pa.struct(
    [
        pa.field("member_id", pa.string()),
        pa.field("instance_id", pa.string()),
        pa.field("client_id", pa.string()),
        pa.field("client_host", pa.string()),
        pa.field("rebalance_timeout_ms", pa.int32()),
        pa.field("session_timeout_ms", pa.int32()),
        pa.field("subscription", pa.binary()),
        pa.field("assignment", pa.binary()),
        pa.field("assigned", pa.list_(ASSIGNED)),
    ]
)
GROUPS = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("group", pa.string()),
        # False for a deletion; then everything below is null.
        pa.field("is_group", pa.bool_()),
        pa.field("protocol_type", pa.string()),
        pa.field("generation", pa.int32()),
        pa.field("protocol", pa.string()),
        pa.field("leader", pa.string()),
        pa.field("state_ms", pa.int64()),
        pa.field("value_version", pa.int16()),
        pa.field("members", pa.list_(MEMBER)),
    ]
)
NEWER = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("group", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
REJECTS = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)


class OffsetsColumns(NamedTuple):
    """Together the four have one row per record."""

    commits: pa.RecordBatch
    groups: pa.RecordBatch
    newer: pa.RecordBatch
    rejects: pa.RecordBatch


class _Source(NamedTuple):
    """A binary array as the kernels want it: one buffer, and where each value starts and how long it is (-1: null)."""

    array: pa.Array
    data: Any
    starts: Any
    sizes: Any


def decode_offsets(keys: pa.Array, values: pa.Array) -> OffsetsColumns:
    """Sort and decode records given as two arrays of bytes of the same length."""
    key_source, value_source = _source(keys), _source(values)
    entries = np.zeros((kernels.ENTRY_FIELDS, len(keys)), np.int64)
    compiled(kernels, "scan_entries")(*key_source[1:], *value_source[1:], entries)
    kinds = entries[kernels.KIND]
    commits, odd_commits = _commits(entries, key_source, value_source)
    groups, odd_groups = _groups(entries, key_source, value_source)
    others = np.flatnonzero((kinds == kernels.SLOW) | (kinds == kernels.NEWER))
    left = np.sort(np.concatenate([others, odd_commits, odd_groups]))
    decided = _decide(left, keys, values)
    return OffsetsColumns(
        _joined(commits, decided.commits), _joined(groups, decided.groups), decided.newer, decided.rejects
    )


def _source(array: pa.Array) -> _Source:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    sizes = np.diff(ends)
    if array.null_count:
        sizes[np.asarray(array.is_null())] = -1
    view = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    view.flags.writeable = False
    return _Source(array, view, np.ascontiguousarray(ends[:-1]), sizes)


def _texts(source: _Source, starts: Any, sizes: Any) -> pa.Array:
    """Cut values out of a source, in rising order; a size of -1 is null."""
    count = len(starts)
    ends = np.empty(2 * count + 1, np.int32)
    ends[0:-1:2] = starts
    ends[1:-1:2] = starts + np.maximum(sizes, 0)
    ends[-1] = ends[-2] if count else 0
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(source.data)]
    spread = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=np.ascontiguousarray(sizes < 0))
    return spread.take(wanted)


def _bad_texts(*columns: pa.Array) -> Any:
    """The rows in which a column is not UTF-8: found by trying, one by one only where there is one."""
    bad = np.zeros(len(columns[0]), bool)
    for column in columns:
        try:
            column.cast(pa.string())
        except pa.ArrowInvalid:
            for row, value in enumerate(column.to_pylist()):
                try:
                    (value or b"").decode()
                except UnicodeDecodeError:
                    bad[row] = True
    return bad


def _commits(entries: Any, keys: _Source, values: _Source) -> tuple[pa.RecordBatch, Any]:
    kinds = entries[kernels.KIND]
    rows = np.flatnonzero((kinds == kernels.COMMIT) | (kinds == kernels.COMMIT_TOMBSTONE))
    table = entries[:, rows]
    is_gone = table[kernels.KIND] == kernels.COMMIT_TOMBSTONE
    metadata_sizes = np.where(is_gone, -1, table[kernels.METADATA_SIZE])
    # A deletion has no place in the values; the last one known keeps the order of the cuts.
    metadata_at = np.maximum.accumulate(np.where(is_gone, 0, table[kernels.METADATA_AT])) if len(rows) else rows
    group = _texts(keys, table[kernels.GROUP_AT], table[kernels.GROUP_SIZE])
    topic = _texts(keys, table[kernels.TOPIC_AT], table[kernels.TOPIC_SIZE])
    metadata = _texts(values, metadata_at, metadata_sizes)
    bad = _bad_texts(group, topic, metadata)
    odd = rows[bad]
    if len(odd):
        kept = pa.array(~bad)
        group, topic, metadata = (column.filter(kept) for column in (group, topic, metadata))
        rows, table, is_gone = rows[~bad], table[:, ~bad], is_gone[~bad]
    ids_at = table[kernels.TOPIC_ID_AT]
    has_id = ~is_gone & (ids_at > 0)
    if has_id.any():
        id_starts = np.maximum.accumulate(np.where(has_id, ids_at, 0))
        topic_id = _texts(values, id_starts, np.where(has_id, 16, -1))
    else:
        topic_id = pa.nulls(len(rows), pa.binary())
    columns = [
        pa.array(rows), group.cast(pa.string()), topic.cast(pa.string()),
        _numbers(table[kernels.PARTITION], pa.int32()), pa.array(~is_gone),
        _numbers(table[kernels.OFFSET], pa.int64(), is_gone),
        _numbers(table[kernels.EPOCH], pa.int32(), is_gone), metadata.cast(pa.string()),
        _numbers(table[kernels.COMMIT_MS], pa.int64(), is_gone),
        _numbers(table[kernels.EXPIRE_MS], pa.int64(), is_gone),
        _numbers(table[kernels.VERSION], pa.int16(), is_gone), topic_id,
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=COMMITS), odd


def _numbers(column: Any, kind: pa.DataType, is_null: Any = None) -> pa.Array:
    return pa.array(np.ascontiguousarray(column), mask=is_null).cast(kind)


def _groups(entries: Any, keys: _Source, values: _Source) -> tuple[pa.RecordBatch, Any]:
    kinds = entries[kernels.KIND]
    rows = np.flatnonzero((kinds == kernels.GROUP) | (kinds == kernels.GROUP_TOMBSTONE))
    if not len(rows):
        return _empty(GROUPS), rows
    is_gone = kinds[rows] == kernels.GROUP_TOMBSTONE
    living = rows[~is_gone]
    starts, sizes = np.ascontiguousarray(values.starts[living]), np.ascontiguousarray(values.sizes[living])
    heads = np.zeros((kernels.GROUP_FIELDS, len(living)), np.int64)
    scan = compiled(kernels, "scan_groups")
    count = scan(values.data, starts, sizes, heads, np.zeros((kernels.MEMBER_FIELDS, 0), np.int64))
    people = np.zeros((kernels.MEMBER_FIELDS, count), np.int64)
    scan(values.data, starts, sizes, heads, people)
    names = _texts(keys, entries[kernels.GROUP_AT, rows], entries[kernels.GROUP_SIZE, rows])
    is_odd = heads[kernels.MEMBERS] < 0
    texts = {
        name: _texts(values, np.where(is_odd, starts, heads[at]), np.where(is_odd, -1, heads[size]))
        for name, at, size in (
            ("protocol_type", kernels.PROTOCOL_TYPE_AT, kernels.PROTOCOL_TYPE_SIZE),
            ("protocol", kernels.PROTOCOL_AT, kernels.PROTOCOL_SIZE),
            ("leader", kernels.LEADER_AT, kernels.LEADER_SIZE),
        )
    }  # fmt: skip
    members, bad_members = _members(values, people)
    bad = _bad_texts(names)
    bad_living = _bad_texts(*texts.values()) | is_odd
    bad_living[people[kernels.OF_GROUP][bad_members]] = True
    bad[~is_gone] |= bad_living
    return _group_batch(rows, is_gone, names, heads, texts, members, bad), rows[bad]


def _group_batch(
    rows: Any,
    is_gone: Any,
    names: pa.Array,
    heads: Any,
    texts: dict[str, pa.Array],
    members: pa.Array,
    bad: Any,
) -> pa.RecordBatch:
    counts = np.maximum(heads[kernels.MEMBERS], 0)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends), members)
    # The place of each row among the living, or null for a deletion.
    place = np.cumsum(~is_gone) - 1
    wanted = ~bad
    take = pa.array(place[wanted], mask=np.ascontiguousarray(is_gone[wanted]))

    def column(array: pa.Array, kind: pa.DataType) -> pa.Array:
        # Texts of rows that are left out may be no texts, so the cast comes last.
        return array.take(take).cast(kind)

    columns = [
        pa.array(rows[wanted]), names.filter(pa.array(wanted)).cast(pa.string()), pa.array(~is_gone[wanted]),
        column(texts["protocol_type"], pa.string()), column(pa.array(heads[kernels.GENERATION]), pa.int32()),
        column(texts["protocol"], pa.string()), column(texts["leader"], pa.string()),
        column(pa.array(heads[kernels.STATE_MS]), pa.int64()),
        column(pa.array(heads[kernels.GROUP_VERSION]), pa.int16()), lists.take(take),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=GROUPS)


def _members(values: _Source, people: Any) -> tuple[pa.Array, Any]:
    """Members as structs, and the places of those with a text that is not UTF-8."""
    count = people.shape[1]
    texts = [
        _texts(values, people[at], people[size])
        for at, size in (
            (kernels.MEMBER_AT, kernels.MEMBER_SIZE),
            (kernels.INSTANCE_AT, kernels.INSTANCE_SIZE),
            (kernels.CLIENT_AT, kernels.CLIENT_SIZE),
            (kernels.HOST_AT, kernels.HOST_SIZE),
        )
    ]
    assigned = _assigned(values, people[kernels.ASSIGNMENT_AT], people[kernels.ASSIGNMENT_SIZE])
    topics = _assigned_topics(values, assigned)
    ends = np.concatenate([[0], np.cumsum(np.bincount(assigned[kernels.OF_MEMBER], minlength=count))]).astype(np.int32)
    pairs = pa.StructArray.from_arrays(
        [topics, _numbers(assigned[kernels.ASSIGNED_PARTITION], pa.int32())], fields=list(ASSIGNED)
    )
    bad = _bad_texts(*texts) if count else np.zeros(0, bool)
    if bad.any():
        # Their groups are decided one by one; here only the cast must pass.
        texts = [pc.if_else(pa.array(bad), pa.scalar(b"", pa.binary()), column) for column in texts]
    members = pa.StructArray.from_arrays(
        [
            *(column.cast(pa.string()) for column in texts),
            _numbers(people[kernels.REBALANCE_MS], pa.int32()),
            _numbers(people[kernels.SESSION_MS], pa.int32()),
            _texts(values, people[kernels.SUBSCRIPTION_AT], people[kernels.SUBSCRIPTION_SIZE]),
            _texts(values, people[kernels.ASSIGNMENT_AT], people[kernels.ASSIGNMENT_SIZE]),
            pa.ListArray.from_arrays(pa.array(ends), pairs),
        ],
        fields=list(MEMBER),
    )
    return members, np.flatnonzero(bad)


def _assigned(values: _Source, starts: Any, sizes: Any) -> Any:
    """The table of assigned partitions in the assignments that start there."""
    where = (values.data, np.ascontiguousarray(starts), np.ascontiguousarray(sizes))
    scan = compiled(kernels, "scan_assignments")
    count = scan(*where, np.zeros((kernels.ASSIGNED_FIELDS, 0), np.int64))
    assigned = np.zeros((kernels.ASSIGNED_FIELDS, count), np.int64)
    scan(*where, assigned)
    return assigned


def _assigned_topics(values: _Source, assigned: Any) -> pa.Array:
    """The topic of each assigned partition; undecodable bytes are replaced, since the raw assignment is kept beside."""
    at, sizes = assigned[kernels.ASSIGNED_TOPIC_AT], assigned[kernels.ASSIGNED_TOPIC_SIZE]
    if not len(at):
        return pa.array([], pa.string())
    first = np.concatenate([[True], at[1:] != at[:-1]])
    topics = _texts(values, at[first], sizes[first])
    try:
        topics = topics.cast(pa.string())
    except pa.ArrowInvalid:
        topics = pa.array([value.decode(errors="replace") for value in topics.to_pylist()], pa.string())
    return topics.take(pa.array(np.cumsum(first) - 1))


def _decide(rows: Any, keys: pa.Array, values: pa.Array) -> OffsetsColumns:
    """What the compiled loops left, one by one."""
    commits: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    newer: list[dict[str, Any]] = []
    rejects: list[dict[str, Any]] = []
    for row in rows:
        key, value = keys[int(row)].as_py(), values[int(row)].as_py()
        entry = offsets_topic.decode_entry(key, value)
        if isinstance(entry, offsets_topic.OffsetCommitEntry):
            commits.append(_commit_row(int(row), entry))
        elif isinstance(entry, offsets_topic.GroupEntry):
            groups.append(_group_row(int(row), entry))
        elif isinstance(entry, offsets_topic.NewerEntry):
            newer.append({"row": int(row), "name": entry.name, "group": entry.group, "key": key, "value": value})
        else:
            rejects.append({"row": int(row), "reason": entry.reason, "key": key, "value": value})
    return OffsetsColumns(
        pa.RecordBatch.from_pylist(commits, schema=COMMITS), pa.RecordBatch.from_pylist(groups, schema=GROUPS),
        pa.RecordBatch.from_pylist(newer, schema=NEWER), pa.RecordBatch.from_pylist(rejects, schema=REJECTS),
    )  # fmt: skip


def _commit_row(row: int, entry: offsets_topic.OffsetCommitEntry) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "row": row, "group": entry.group, "topic": entry.topic, "partition": entry.partition, "is_commit": False,
    }  # fmt: skip
    value = entry.value
    if value is not None:
        has_id = any(value.topic_id)
        fields |= {
            "is_commit": True, "offset": value.offset, "leader_epoch": value.leader_epoch, "metadata": value.metadata,
            "commit_ms": value.commit_timestamp, "expire_ms": value.expire_timestamp,
            "value_version": entry.value_version, "topic_id": bytes(value.topic_id) if has_id else None,
        }  # fmt: skip
    return fields


def _group_row(row: int, entry: offsets_topic.GroupEntry) -> dict[str, Any]:
    fields: dict[str, Any] = {"row": row, "group": entry.group, "is_group": False}
    value = entry.value
    if value is not None:
        fields |= {
            "is_group": True, "protocol_type": value.protocol_type, "generation": value.generation,
            "protocol": value.protocol, "leader": value.leader, "state_ms": value.current_state_timestamp,
            "value_version": entry.value_version, "members": [_member_row(member) for member in value.members],
        }  # fmt: skip
    return fields


def _member_row(member: offsets_topic.MemberMetadata) -> dict[str, Any]:
    source = _source(pa.array([bytes(member.assignment)], pa.binary()))
    assigned = _assigned(source, source.starts, source.sizes)
    topics = _assigned_topics(source, assigned).to_pylist()
    return {
        "member_id": member.member_id, "instance_id": member.group_instance_id, "client_id": member.client_id,
        "client_host": member.client_host, "rebalance_timeout_ms": member.rebalance_timeout,
        "session_timeout_ms": member.session_timeout, "subscription": bytes(member.subscription),
        "assignment": bytes(member.assignment),
        "assigned": [
            {"topic": topic, "partition": int(partition)}
            for topic, partition in zip(topics, assigned[kernels.ASSIGNED_PARTITION], strict=True)
        ],
    }  # fmt: skip


def _joined(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    """Both in the order of their rows."""
    if not other.num_rows:
        return one
    table = pa.Table.from_batches([one, other]).combine_chunks()
    return table.take(pc.sort_indices(table["row"])).to_batches()[0]


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
