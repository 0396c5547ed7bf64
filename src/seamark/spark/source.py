"""The data source ``seamark``: what Spark makes of ``format("seamark")``, for reading and for writing.

Options are checked when the frame is made, before anything runs; the parts are imported when they are needed, because
Spark makes this object in several processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from seamark.spark.option_names import TAKEN
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.projection import check_schema, default_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class SeamarkDataSource(DataSource):
    """Kafka topics as rows, and rows as records of Kafka topics."""

    @classmethod
    def name(cls) -> str:
        return "seamark"

    def schema(self) -> str:
        # Which kind of query this becomes is not known yet; an option that only batch queries have tells it.
        given = {name.lower() for name in self.options}
        is_batch = any(kind == "batch" and name.lower() in given for name, kind in TAKEN.items())
        return default_schema(include_headers=ReadOptions.of(self.options, is_stream=not is_batch).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from seamark.spark.read.batch_reader import BatchReader

        check_schema(schema)
        return BatchReader(ReadOptions.of(self.options, is_stream=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from seamark.spark.read.stream_reader import StreamReader

        check_schema(schema)
        return StreamReader(ReadOptions.of(self.options, is_stream=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from seamark.spark.write.writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from seamark.spark.write.writer import stream_writer

        return stream_writer(self.options, schema, overwrite)
