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
    ("offsets_partition", _INT, "partition of __consumer_offsets that holds the record; -1: from the sampler"),
    ("offsets_offset", _LONG, "the record's offset in that partition; null: from the sampler"),
]
_WRITTEN: _Columns = [*_WHERE, ("time", _TIME, "when the record was written")]
_RAW: _Columns = [("key", _BYTES, "the record's key, unchanged"), ("value", _BYTES, "the record's value, unchanged")]

_TABLES: dict[str, _Columns] = {
    "commits": [
        *_WHERE,
        ("group", _TEXT, "consumer group"),
        ("topic", _TEXT, "topic of the committed offset"),
        ("partition", _INT, "partition of the committed offset"),
        ("offset", _LONG, "next offset to process; null: the offset was deleted (tombstone)"),
        ("leader_epoch", _INT, "leader epoch of the last record processed; -1: unknown"),
        ("metadata", _TEXT, "the commit's metadata"),
        ("commit_time", _TIME, "when the coordinator accepted the commit; null for a tombstone"),
        ("append_time", _TIME, "when the record was written"),
        ("expire_time", _TIME, "when the commit expires, if the record says so"),
        ("tombstone", _TRUTH, "the offset was deleted: by expiration, by a client, or with its group"),
        ("done_ahead", _Array(_STRETCH), "offsets done beyond the committed one, end exclusive; null: no map"),
        ("previous_offset", _LONG, "offset of the previous record of the same group and partition; null: none"),
        ("delta", _LONG, "offset - previous_offset"),
        ("since_previous_ms", _LONG, "commit_time minus that of the previous commit; negative: a clock went backwards"),
        ("generation", _INT, "inferred: the last generation written before it in the same offsets partition"),
        ("owner", _TEXT, "inferred: member id that the partition was assigned to in that generation"),
        ("owner_client", _TEXT, "inferred: client id of the owner"),
        ("owner_host", _TEXT, "inferred: host of the owner"),
        ("origin", _TEXT, "inferred: member (a member owned the partition), outside (none did), unknown"),
        ("inferred", _TRUTH, "generation, owner and origin are inferred: Kafka does not store who committed"),
        ("complete", _TRUTH, "no record of the same key can be missing between the previous one and this"),
    ],
    "generations": [
        *_WRITTEN,
        ("group", _TEXT, "consumer group"),
        ("protocol_type", _TEXT, "consumer, connect, or the protocol type of another client"),
        ("protocol", _TEXT, "the assignor that the group chose"),
        ("generation", _INT, "the new generation"),
        ("leader", _TEXT, "member id of the leader"),
        ("members", _Array(_MEMBER), "members with their assignments"),
        ("joined", _Array(_TEXT), "member ids that were not in the previous record"),
        ("gone", _Array(_TEXT), "member ids that were only in the previous record"),
        ("tombstone", _TRUTH, "the group was deleted"),
        ("complete", _TRUTH, "no record of the same group can be missing between the previous one and this"),
        ("duration_ms", _LONG, "from the first sample that saw the rebalance to this record; null: none did"),
    ],
    "modern_groups": [
        *_WRITTEN,
        ("kind", _TEXT, "Kafka's name of the record type"),
        ("group", _TEXT, "group of the new consumer protocol (KIP-848)"),
        ("member", _TEXT, "member id, if the record is about a member"),
        ("version", _INT, "version of the record's value; null for a tombstone"),
        ("fields", _TEXT, "the rest of key and value as JSON"),
        ("tombstone", _TRUTH, "what the key names was deleted"),
    ],
    "raw_records": [*_WRITTEN, ("kind", _TEXT, "Kafka's name of the record type"), *_RAW],
    "rejects": [*_WRITTEN, ("reason", _TEXT, "why the record could not be decoded"), *_RAW],
    "log_ends": [
        ("time", _TIME, "time of the sample"),
        ("topic", _TEXT, "topic"),
        ("partition", _INT, "partition"),
        ("log_start", _LONG, "first offset that can be read"),
        ("log_end", _LONG, "next offset to be written"),
    ],
    "group_states": [
        ("time", _TIME, "time of the sample"),
        ("group", _TEXT, "consumer group"),
        ("type", _TEXT, "protocol of the group: classic, consumer, share, streams"),
        ("state", _TEXT, "state reported by the coordinator"),
        ("protocol", _TEXT, "assignor"),
        ("members", _INT, "number of members"),
        ("coordinator", _INT, "node id of the coordinator"),
    ],
    "lag": [
        ("time", _TIME, "time of the sample"),
        ("group", _TEXT, "consumer group"),
        ("topic", _TEXT, "topic"),
        ("partition", _INT, "partition"),
        ("committed", _LONG, "committed offset; null: none"),
        ("log_start", _LONG, "first offset that can be read"),
        ("log_end", _LONG, "next offset to be written"),
        ("lag", _LONG, "log_end - committed, negative beyond the end; null: no committed offset, or no answer"),
        ("time_lag_ms", _LONG, "age of the first unread record"),
        ("time_lag_error_ms", _LONG, "0: the age is exact; null: the age is a lower bound"),
        ("method", _TEXT, "how the age is known: caught up, read, at least; null: not known"),
    ],
    "findings": [
        ("found_time", _TIME, "when the finding was made"),
        ("first_time", _TIME, "start of the finding's period"),
        ("last_time", _TIME, "end of the finding's period"),
        ("kind", _TEXT, "the rule's name"),
        ("group", _TEXT, "consumer group"),
        ("topic", _TEXT, "topic; null: the whole group"),
        ("partition", _INT, "partition; null: the whole group or topic"),
        ("severity", _TEXT, "critical, warning or notice"),
        ("text", _TEXT, "one sentence that says what happened"),
        ("evidence", _TEXT, "the numbers that the finding is based on, as JSON"),
        ("parameters", _TEXT, "the rule's parameters, as JSON"),
    ],
}  # fmt: skip

# What a run hands on to the next one; not for readers.
_STATE: dict[str, _Columns] = {
    "state_keys": [
        ("offsets_partition", _INT, "partition of __consumer_offsets; -1: from the sampler"),
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
