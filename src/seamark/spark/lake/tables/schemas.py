"""The tables of the lake: names, columns, types and what each column means.

These are the documented schemas of lake format version 1: a change of a name, a type or a meaning is a new version.
Times have a resolution of milliseconds and are UTC; a time that is missing in the record, or that no calendar holds, is
null and its ``day`` is 1970-01-01. ``day`` is a directory, not a column of the files. Every column may be null.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

# The version of the lake's format, written to lake.json.
VERSION = 1


class _Struct(NamedTuple):
    fields: tuple[tuple[str, _Kind], ...]


class _Array(NamedTuple):
    of: _Kind


# A word of ``_WORDS``, or what is made of them. Tasks write files by these without loading Spark's own types.
_Kind = str | _Struct | _Array

_INT, _LONG, _TEXT, _TRUTH, _BYTES, _TIME, _DAY = "int", "long", "text", "truth", "bytes", "time", "day"
_STRETCH = _Struct((("start", _LONG), ("end", _LONG)))
_ASSIGNED = _Struct((("topic", _TEXT), ("partitions", _Array(_INT))))
_MEMBER = _Struct(
    (
        ("member", _TEXT),
        ("instance", _TEXT),
        ("client", _TEXT),
        ("host", _TEXT),
        ("session_timeout_ms", _INT),
        ("rebalance_timeout_ms", _INT),
        ("assigned", _Array(_ASSIGNED)),
    )
)

_Columns = list[tuple[str, _Kind, str]]
_WHERE: _Columns = [
    ("offsets_partition", _INT, "partition of __consumer_offsets that holds the record; -1: seen by the sampler"),
    ("offsets_offset", _LONG, "the record's offset in that partition; null: seen by the sampler"),
]
_WRITTEN: _Columns = [*_WHERE, ("time", _TIME, "when the record was written")]
_RAW: _Columns = [("key", _BYTES, "the record's key as it was"), ("value", _BYTES, "the record's value as it was")]

_TABLES: dict[str, _Columns] = {
    "commits": [
        *_WHERE,
        ("group", _TEXT, "consumer group"),
        ("topic", _TEXT, "topic that the offset is of"),
        ("partition", _INT, "partition that the offset is of"),
        ("offset", _LONG, "next offset to process; null: the commit was taken away (tombstone)"),
        ("leader_epoch", _INT, "leader epoch of the last record processed; -1: not given"),
        ("metadata", _TEXT, "the committer's text"),
        ("commit_time", _TIME, "when the coordinator took the commit; null for a tombstone"),
        ("append_time", _TIME, "when the record was written"),
        ("expire_time", _TIME, "when the commit expires, where the record says so"),
        ("tombstone", _TRUTH, "the stored offset was taken away: expired, deleted, or its group was"),
        ("done_ahead", _Array(_STRETCH), "offsets done beyond the committed one, end exclusive; null: none of ours"),
        ("previous_offset", _LONG, "offset of the record before for the same group and partition; null: none"),
        ("delta", _LONG, "offset - previous_offset"),
        ("since_previous_ms", _LONG, "commit_time minus that of the commit before; negative: a clock ran backwards"),
        ("generation", _INT, "inferred: the generation last written before in the same offsets partition"),
        ("owner", _TEXT, "inferred: member id that the partition was assigned to in that generation"),
        ("owner_client", _TEXT, "inferred: client id of the owner"),
        ("owner_host", _TEXT, "inferred: host of the owner"),
        ("origin", _TEXT, "inferred: member (somebody owned the partition), outside (nobody did), unknown"),
        ("inferred", _TRUTH, "generation, owner and origin are inferred: Kafka's record names no committer"),
        ("complete", _TRUTH, "nothing can be missing between this and the record before of the same key"),
    ],
    "generations": [
        *_WRITTEN,
        ("group", _TEXT, "consumer group"),
        ("protocol_type", _TEXT, "consumer, connect or another client's own word"),
        ("protocol", _TEXT, "the assignor that the group chose"),
        ("generation", _INT, "generation that began"),
        ("leader", _TEXT, "member id of the leader"),
        ("members", _Array(_MEMBER), "members with what each was assigned"),
        ("joined", _Array(_TEXT), "member ids that the record before did not have"),
        ("gone", _Array(_TEXT), "member ids that only the record before had"),
        ("tombstone", _TRUTH, "the group was taken away"),
        ("complete", _TRUTH, "nothing can be missing between this and the record before of the same group"),
        ("duration_ms", _LONG, "from the first look that saw the rebalance to this record; null: no look saw it"),
    ],
    "modern_groups": [
        *_WRITTEN,
        ("kind", _TEXT, "name of the record, as Kafka calls it"),
        ("group", _TEXT, "consumer group of the newer protocol"),
        ("member", _TEXT, "member id, where the record is about one"),
        ("version", _INT, "version of the record's value; null for a tombstone"),
        ("fields", _TEXT, "the rest of key and value as JSON"),
        ("tombstone", _TRUTH, "what the key names was taken away"),
    ],
    "raw_records": [*_WRITTEN, ("kind", _TEXT, "name of the record, as Kafka calls it"), *_RAW],
    "rejects": [*_WRITTEN, ("reason", _TEXT, "why the record could not be decoded"), *_RAW],
    "log_ends": [
        ("time", _TIME, "time of the look"),
        ("topic", _TEXT, "topic"),
        ("partition", _INT, "partition"),
        ("log_start", _LONG, "first offset that can be read"),
        ("log_end", _LONG, "next offset to be written"),
    ],
    "group_states": [
        ("time", _TIME, "time of the look"),
        ("group", _TEXT, "consumer group"),
        ("type", _TEXT, "protocol of the group: classic, consumer, share, streams"),
        ("state", _TEXT, "state as the coordinator says it"),
        ("protocol", _TEXT, "assignor"),
        ("members", _INT, "number of members"),
        ("coordinator", _INT, "node id of the coordinator"),
    ],
    "lag": [
        ("time", _TIME, "time of the look"),
        ("group", _TEXT, "consumer group"),
        ("topic", _TEXT, "topic"),
        ("partition", _INT, "partition"),
        ("committed", _LONG, "committed offset; null: none"),
        ("log_start", _LONG, "first offset that can be read"),
        ("log_end", _LONG, "next offset to be written"),
        ("lag", _LONG, "log_end - committed, negative beyond the end; null: nothing committed, or no answer"),
        ("time_lag_ms", _LONG, "age of the first unread record"),
        ("time_lag_error_ms", _LONG, "0: the age is exact; null: the age is a lower bound"),
        ("method", _TEXT, "how the age is known: caught up, read, at least; null: not known"),
    ],
    "findings": [
        ("found_time", _TIME, "when the finding was made"),
        ("first_time", _TIME, "begin of what it is about"),
        ("last_time", _TIME, "end of what it is about"),
        ("kind", _TEXT, "the rule's name"),
        ("group", _TEXT, "consumer group"),
        ("topic", _TEXT, "topic; null: the whole group"),
        ("partition", _INT, "partition; null: the whole group or topic"),
        ("severity", _TEXT, "how urgent it is"),
        ("text", _TEXT, "a sentence that a person can act on"),
        ("evidence", _TEXT, "what it was found from, as JSON"),
        ("parameters", _TEXT, "the rule's parameters, as JSON"),
    ],
}  # fmt: skip

# What a run hands on to the next one; not for readers.
_STATE: dict[str, _Columns] = {
    "state_keys": [
        ("offsets_partition", _INT, "partition of __consumer_offsets; -1: kept by the sampler"),
        ("group", _TEXT, "consumer group"),
        ("topic", _TEXT, "topic"),
        ("partition", _INT, "partition"),
        ("seen_at", _LONG, "offset of the key's last record"),
        ("offset", _LONG, "what that record committed; null: it was a tombstone"),
        ("commit_ms", _LONG, "its commit time"),
    ],
    "state_groups": [
        ("offsets_partition", _INT, "partition of __consumer_offsets"),
        ("seen_at", _LONG, "offset of the group's last record"),
        ("group", _TEXT, "consumer group"),
        ("generation", _INT, "its generation; null: it was a tombstone"),
        ("members", _Array(_MEMBER), "its members"),
    ],
}

TABLES = tuple(_TABLES)
STATE_TABLES = tuple(_STATE)


@cache
def schema(table: str) -> StructType:
    """The Spark schema of a table, with a comment per column; ``day`` comes last. State tables have no day."""
    from pyspark.sql.types import StructField, StructType

    columns = [*_STATE[table]] if table in _STATE else [*_TABLES[table], ("day", _DAY, "day of the row's time, UTC")]
    return StructType([StructField(name, _spark(kind), True, {"comment": told}) for name, kind, told in columns])


@cache
def file_schema(table: str) -> pa.Schema:
    """What the Parquet files of a table hold, in Arrow's words: all columns but ``day``."""
    import pyarrow as pa

    return pa.schema([pa.field(name, _arrow(kind)) for name, kind, _ in {**_TABLES, **_STATE}[table]])


def column_texts(table: str) -> list[str]:
    """Names and types of a table's columns in the words of SQL, as lake.json keeps them."""
    columns = [(name, kind) for name, kind, _ in _TABLES[table]]
    return [f"{name} {_sql(kind)}" for name, kind in [*columns, ("day", _DAY)]]


def _sql(kind: _Kind) -> str:
    if isinstance(kind, _Struct):
        return f"struct<{','.join(f'{name}:{_sql(of)}' for name, of in kind.fields)}>"
    if isinstance(kind, _Array):
        return f"array<{_sql(kind.of)}>"
    words = {
        _INT: "int", _LONG: "bigint", _TEXT: "string", _TRUTH: "boolean", _BYTES: "binary", _TIME: "timestamp",
        _DAY: "date",
    }  # fmt: skip
    return words[kind]


def _spark(kind: _Kind) -> DataType:
    from pyspark.sql import types

    if isinstance(kind, _Struct):
        return types.StructType([types.StructField(name, _spark(of)) for name, of in kind.fields])
    if isinstance(kind, _Array):
        return types.ArrayType(_spark(kind.of))
    words: dict[str, DataType] = {
        _INT: types.IntegerType(), _LONG: types.LongType(), _TEXT: types.StringType(), _TRUTH: types.BooleanType(),
        _BYTES: types.BinaryType(), _TIME: types.TimestampType(), _DAY: types.DateType(),
    }  # fmt: skip
    return words[kind]


def _arrow(kind: _Kind) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, _Struct):
        return pa.struct([pa.field(name, _arrow(of)) for name, of in kind.fields])
    if isinstance(kind, _Array):
        return pa.list_(_arrow(kind.of))
    words = {
        _INT: pa.int32(), _LONG: pa.int64(), _TEXT: pa.string(), _TRUTH: pa.bool_(), _BYTES: pa.binary(),
        _TIME: pa.timestamp("ms", tz="UTC"),
    }  # fmt: skip
    return words[kind]
