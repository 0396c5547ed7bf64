"""Small files of a day merged into few, so that a lake that is filled every few seconds stays quick to read.

Every run adds a file per table, day and offsets partition. Once a day of a table has many, a Spark task rewrites
the small ones as one and a version is published that names it in their place: the same rows, nothing else. Readers of
the versions before are not disturbed, because their files stay until those versions are forgotten.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from seamark.spark.lake.tables.lake import Lake
from seamark.spark.lake.tables.manifest import File, Manifest
from seamark.spark.lake.tables.schemas import TABLES
from seamark.spark.lake.task_lines import numbered_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# More small files than this in one day of one table are merged.
MOST_SMALL_FILES = 200
_SMALL_BYTES = 16 << 20
# What one task rewrites at most: it is read and written in one go.
_MERGED_BYTES = 128 << 20


def merge_small_files(spark: SparkSession, lake: Lake, most: int = MOST_SMALL_FILES) -> int:
    """Merge where there are too many; gives how many files were taken away. Call it inside ``lake.writing``."""
    planned = plan_merging(lake.published, most)
    if not planned:
        return 0
    root = str(lake.path)

    def work(number: int) -> str:
        table, files = planned[number]
        return json.dumps([table, [asdict(file) for file in _merge(root, table, files)]])

    added: dict[str, list[File]] = {}
    for line in numbered_tasks(spark, len(planned), work):
        table, files = json.loads(line)
        added.setdefault(table, []).extend(File(**file) for file in files)
    dropped = [file.path for _, files in planned for file in files]
    lake.publish(added, dropped=dropped)
    return len(dropped)


def plan_merging(published: Manifest, most: int) -> list[tuple[str, list[File]]]:
    """Which files of which tables become one."""
    planned: list[tuple[str, list[File]]] = []
    for table in TABLES:
        days: dict[str, list[File]] = {}
        for file in published.files(table):
            if file.size <= _SMALL_BYTES:
                days.setdefault(PurePosixPath(file.path).parent.name, []).append(file)
        for files in days.values():
            if len(files) > most:
                planned.extend((table, part) for part in _parts(files) if len(part) > 1)
    return planned


def _parts(files: list[File]) -> list[list[File]]:
    parts: list[list[File]] = [[]]
    size = 0
    for file in files:
        if parts[-1] and size + file.size > _MERGED_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(file)
        size += file.size
    return parts


def _merge(root: str, table: str, files: list[File]) -> list[File]:
    import numpy as np
    import pyarrow.parquet as pq

    from seamark.spark.lake.tables.files import LakeFiles
    from seamark.spark.lake.tables.schemas import file_schema

    made = LakeFiles(root)
    for file in files:
        day = np.datetime64(PurePosixPath(file.path).parent.name.removeprefix("day="), "D").astype(np.int64)
        rows = pq.ParquetFile(f"{root}/{file.path}").read().cast(file_schema(table))
        made.add(table, rows, np.full(rows.num_rows, day * 86_400_000))
    return [file for _, file in made.finish()]
