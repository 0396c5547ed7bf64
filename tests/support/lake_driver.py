"""A program that fills a lake, to be killed while it does; and what a lake holds, for comparing two of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.client import Admin, Offset, TopicPartition
from tests.support.spark_session import spark_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark import Broker

_PROGRAM = """
import sys
from seamark.spark.lake.fill import job
from seamark.spark.lake.fill.stream import stream
from seamark.client import Admin, Offset, TopicPartition
from tests.support.spark_session import local_session

with local_session() as spark:
    spark.range(1).count()
    print("ready", flush=True)
    for word in sys.stdin:
        config = {"bootstrap.servers": sys.argv[1]}
        if word.strip() == "stream":
            made = stream(spark, sys.argv[2], config, sys.argv[2] + "-checkpoint", {"availableNow": True})
            made.query.awaitTermination()
        else:
            job.run(spark, sys.argv[2], config=config)
        print("done", flush=True)
"""


def commit_some(broker: Broker, topic: str, count: int) -> None:
    """Commits of seven groups to a topic of two partitions."""
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        for number in range(count):
            place = {TopicPartition(topic, number % 2): Offset(number)}
            admin.alter_group_offsets(f"{topic}-{number % 7}", place, look_first=False).raise_if_failed()


class LakeDriver:
    """The program as a process; ``run`` lets it fill the lake once, ``kill`` ends it and all that it started."""

    def __init__(self, bootstrap: str, lake: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, bootstrap, str(lake)],
            env={**os.environ, **spark_environment(), "PYTHONPATH": str(Path(__file__).parents[2])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == "ready\n", f"the driver did not start: {line!r}"

    def run(self, how: str = "batch") -> None:
        """``how`` is "batch" or "stream"."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{how}\n")
        self._process.stdin.flush()

    def wait_done(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == "done\n", f"the driver failed: {line!r}"

    def kill(self) -> None:
        """With everything in its session: the JVM and the Python workers of the tasks."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def contents(
    spark: SparkSession, path: Path, tables: tuple[str, ...] = ("commits", "generations")
) -> dict[str, list[str]]:
    """All rows of the tables as sorted texts."""
    from seamark.spark.lake.tables.lake import Lake

    lake = Lake.open(path)
    return {table: sorted(map(repr, lake.read(spark, table).collect())) for table in tables}
