"""Which columns a query gets, and how the client's Arrow columns become them.

Names and types are those of Spark's own Kafka source. A narrower schema given by the user decodes only those columns:
Spark does not tell a Python source what a query selects. ``RowBatches`` turns decoded batches into exactly the Arrow
schema that Spark expects; topic and partition are the same for a whole batch and cost next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seamark.errors import ConfigError
from seamark.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_HEADERS = "array<struct<key:string,value:binary>>"
# Spark's name: its type, the client's column it comes from, whether it may be declared not null.
COLUMNS: dict[str, tuple[str, str | None, bool]] = {
    "key": ("binary", "key", False),
    "value": ("binary", "value", False),
    "topic": ("string", None, True),
    "partition": ("int", None, True),
    "offset": ("bigint", "offset", True),
    "timestamp": ("timestamp", "timestamp", True),
    "timestampType": ("int", "timestamp_type", True),
    "headers": (_HEADERS, "headers", False),
}


def default_schema(*, include_headers: bool) -> str:
    """All columns, as text: it can be made without a session."""
    names = [name for name in COLUMNS if name != "headers" or include_headers]
    return ", ".join(f"{name} {COLUMNS[name][0]}" for name in names)


def check_schema(schema: StructType) -> None:
    """Refuse columns that there are not; ConfigError names the first."""
    if not schema.fields:
        raise ConfigError("schema", "", f"unknown column; known: {', '.join(COLUMNS)}")
    for place, column in enumerate(schema.fields):
        known = COLUMNS.get(column.name)
        if known is None:
            raise ConfigError("schema", column.name, f"unknown column; known: {', '.join(COLUMNS)}")
        kind, _, may_be_required = known
        if column.dataType.simpleString() != kind:
            given = column.dataType.simpleString()
            raise ConfigError("schema", f"{column.name} {given}", f"{column.name} is {kind}; cast it after load()")
        if not column.nullable and not may_be_required:
            raise ConfigError("schema", column.name, "can be null and must not be declared not null")
        if any(other.name == column.name for other in schema.fields[:place]):
            raise ConfigError("schema", column.name, "is named twice")


class RowBatches:
    """Makes Spark's batches of one partition from the client's."""

    def __init__(self, schema: StructType, partition: TopicPartition) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._target: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._partition = partition
        self._constants: dict[str, Any] = {}
        wanted = [COLUMNS[name][1] for name in self._target.names]
        # Rows have to be counted even where no column of theirs is wanted.
        self.decoded = tuple(name for name in wanted if name is not None) or ("offset",)

    def row_batch(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = []
        for field in self._target:
            source = COLUMNS[field.name][1]
            if source is None:
                value = self._partition.topic if field.name == "topic" else self._partition.partition
                arrays.append(self._constant(field.name, value, field.type, decoded.num_rows))
            else:
                column = decoded.column(source)
                arrays.append(column if column.type == field.type else column.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def _constant(self, name: str, value: Any, kind: pa.DataType, count: int) -> pa.Array:
        import pyarrow as pa

        made = self._constants.get(name)
        if made is None or len(made) < count:
            made = self._constants[name] = pa.repeat(pa.scalar(value, kind), count)
        return made.slice(0, count)
