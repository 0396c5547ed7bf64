"""offsets_lake.*: the offsets topic decoded, and turned into tables, beside Kafka's own formatter.

One Apache Kafka 4.3.1 holds 4 million records of ``__consumer_offsets``, written into it in batches of Kafka's default
size: commits of 2,000 groups on 5 partitions each, every hundredth a generation with 3 members. The peer is
OffsetsMessageFormatter in the console consumer with the console tools' own Java settings, from the start of its process
to its end, its output read from a pipe and counted (decode) or written to a file (tables). Both sides must have seen
every record; a run in which the console consumer ended early is taken again and counted (``peer_ended_early``).

``decode`` is ``seamark audit totals`` from start to end: commits, tombstones and generations per group, as JSON;
``through_spark_records_per_s`` is the same as a fresh Spark program. ``tables`` is a run of the job into an empty lake
in a session that has run before, from the call to the published version. ``growth`` is the job's time for 10 million
commits in our broker's log over its time for 1 million; ``driver_growth_mb`` is by how much the driver's Python process
and the live objects of its JVM grew from the one to the other.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import psutil

from benchmarks.broker_process import BrokerProcess
from benchmarks.claims import QUICK, compare
from benchmarks.peer_kafka import console_consumer, peer_kafka
from seamark.client import Admin, Offset, Producer, TopicPartition
from seamark.spark.lake.fill import job
from seamark.wire.offsets.offsets_topic import (
    MemberMetadata,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)
from seamark.wire.protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from tests.support.apache_kafka import ApacheKafka
from tests.support.spark_session import local_session, spark_environment

RECORDS = 400_000 if QUICK else 4_000_000
SMALL, LARGE = (100_000, 1_000_000) if QUICK else (1_000_000, 10_000_000)
RUNS = 2 if QUICK else 5
TOPIC = "__consumer_offsets"
# Commits are printed, one JSON object behind the other; generations, every hundredth record, are not. An object that
# lies across two chunks of the output is not counted, which happens once in a megabyte.
_PRINTED_SHARE = 0.985
_START_OF_PRINTED = b'{"key":'
# How much the console consumer printed in the runs that were too short.
_ended_early: list[int] = []
GROUPS, PARTITIONS = 2000, 5
FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"

# Where the tests' helpers and this checkout's package are found.
_IMPORTED_FROM = os.pathsep.join(str(Path(__file__).parents[1] / each) for each in (".", "src"))
SEAMARK = str(Path(sys.executable).with_name("seamark"))
THROUGH_SPARK = """
import sys
from seamark.spark.lake.fill.totals import totals_on_spark
from tests.support.spark_session import local_session
if __name__ == "__main__":
    with local_session() as spark:
        found = totals_on_spark(spark, {"bootstrap.servers": sys.argv[1]})
        row = found.selectExpr("sum(commits + generations)", "count(1)").collect()[0]
    print(*row)
"""


def measure() -> Iterator[dict[str, object]]:
    with peer_kafka() as kafka, tempfile.TemporaryDirectory() as directory:
        fill(kafka.bootstrap, RECORDS)
        yield decode(kafka, Path(directory))
        with local_session(settings={"spark.driver.memory": "2g"}, java_options="") as spark:
            yield tables(spark, kafka, Path(directory))
            yield growth(spark, Path(directory))


def decode(kafka: ApacheKafka, directory: Path) -> dict[str, object]:
    file = directory / "program.py"
    file.write_text(THROUGH_SPARK)

    def ours() -> float:
        def count(told: str) -> int:
            return sum(row["commits"] + row["generations"] for row in json.loads(told))

        return program([SEAMARK, "audit", "totals", "--json", "--bootstrap", kafka.bootstrap], count)

    def on_spark() -> float:
        return program([sys.executable, str(file), kafka.bootstrap], lambda told: int(told.split()[0]))

    through_spark = statistics.median(on_spark() for _ in range(min(RUNS, 3)))
    _ended_early.clear()
    claim = compare(
        "offsets_lake.decode", "records/s", "higher", ours, lambda: formatter(kafka), RUNS, fresh_processes=True,
        through_spark_records_per_s=round(through_spark),
    )  # fmt: skip
    return claim | {"peer_ended_early": len(_ended_early)}


def tables(spark: object, kafka: ApacheKafka, directory: Path) -> dict[str, object]:
    def ours() -> float:
        return RECORDS / filled_lake(spark, kafka.bootstrap, RECORDS)[0]

    def peer() -> float:
        return formatter(kafka, directory / "printed.json")

    _ended_early.clear()
    claim = compare("offsets_lake.tables", "records/s", "higher", ours, peer, RUNS)
    return claim | {"peer_ended_early": len(_ended_early)}


def growth(spark: object, directory: Path) -> dict[str, object]:
    ratios, small_times, large_times, grown = [], [], [], []
    brokers = []
    try:
        for count in (SMALL, LARGE):
            broker = BrokerProcess(directory / f"broker-{count}").start()
            brokers.append(broker)
            fill(broker.bootstrap, count, generations=False)
        filled_lake(spark, brokers[0].bootstrap, SMALL)
        for _ in range(1 if QUICK else 3):
            small, small_mb = filled_lake(spark, brokers[0].bootstrap, SMALL)
            large, large_mb = filled_lake(spark, brokers[1].bootstrap, LARGE)
            ratios.append(large / small)
            small_times.append(small)
            large_times.append(large)
            grown.append(large_mb - small_mb)
    finally:
        for broker in brokers:
            broker.kill()
    return {
        "id": "offsets_lake.growth", "unit": "times", "better": "lower",
        "ours": float(f"{statistics.median(ratios):.4g}"), "peer": None, "ratio": None, "runs": len(ratios),
        "small_s": round(statistics.median(small_times), 2), "large_s": round(statistics.median(large_times), 2),
        "driver_growth_mb": round(statistics.median(grown), 1),
    }  # fmt: skip


def filled_lake(spark: object, bootstrap: str, records: int) -> tuple[float, float]:
    """The seconds of a run into an empty lake, and the driver's memory in MB after it."""
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        summary = job.run(spark, f"{directory}/lake", config={"bootstrap.servers": bootstrap})
        seconds = time.perf_counter() - began
        rows = summary.rows.get("commits", 0) + summary.rows.get("generations", 0)
        # One commit made the topic before it was filled, and each console consumer leaves a few records of its group.
        if not records < rows < records + 1000:
            raise AssertionError(f"the lake has {rows} rows, not {records} and a few")
    java_side = spark.sparkContext._jvm.java.lang  # type: ignore[attr-defined]
    java_side.System.gc()
    runtime = java_side.Runtime.getRuntime()
    live = runtime.totalMemory() - runtime.freeMemory()
    return seconds, (psutil.Process().memory_info().rss + live) / 1e6


def program(command: list[str], count: Callable[[str], int]) -> float:
    """Records per second of a fresh process, which says how many it counted."""
    environment = {**os.environ, **spark_environment(), "PYTHONPATH": _IMPORTED_FROM}
    began = time.perf_counter()
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=600)
    seconds = time.perf_counter() - began
    records = count(run.stdout)
    if not RECORDS < records < RECORDS + 1000:
        raise AssertionError(f"decoded {records} records, not {RECORDS} and a few")
    return records / seconds


def formatter(kafka: ApacheKafka, target: Path | None = None) -> float:
    """Records per second of the console consumer with Kafka's formatter, printing to a pipe or to a file."""
    arguments = ["--topic", TOPIC, "--from-beginning", "--formatter", FORMATTER, "--max-messages", str(RECORDS)]
    command = console_consumer(kafka, *arguments)
    # The console consumer has been seen to end early without an error; such a run says nothing about its speed.
    for _ in range(5):
        seconds, commits = _printed(command, target)
        if commits > RECORDS * _PRINTED_SHARE:
            return RECORDS / seconds
        _ended_early.append(commits)
    raise AssertionError(f"the formatter printed {commits} commits for {RECORDS} records")


def _printed(command: Sequence[str], target: Path | None) -> tuple[float, int]:
    """The seconds of a run and the commits that it printed."""
    began = time.perf_counter()
    if target is not None:
        with target.open("wb") as output:
            subprocess.run(command, stdout=output, stderr=subprocess.DEVNULL, check=True, timeout=600)
        seconds = time.perf_counter() - began
        with target.open("rb") as file:
            return seconds, _commits_in(file)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        commits = _commits_in(process.stdout)
    return time.perf_counter() - began, commits


def _commits_in(file: IO[bytes]) -> int:
    return sum(chunk.count(_START_OF_PRINTED) for chunk in iter(lambda: file.read1(1 << 20), b""))


def fill(bootstrap: str, count: int, *, generations: bool = True) -> None:
    """Let the broker make the topic by one commit, then write into it as only a coordinator or an admin may."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        from seamark.client.admin.types import NewTopic

        admin.create_topics([NewTopic("events", PARTITIONS)]).raise_if_failed()
        admin.alter_group_offsets("bench-first", {TopicPartition("events", 0): Offset(0)}).raise_if_failed()
        offsets_partitions = len(admin.describe_topics([TOPIC])[TOPIC].partitions)
    now = round(time.time() * 1000)
    keys = [
        [offset_commit_key(f"group-{group:05d}", "events", part) for part in range(PARTITIONS)]
        for group in range(GROUPS)
    ]
    settings = {"bootstrap_servers": bootstrap, "client_id": "__admin_client", "linger_ms": 50}
    with Producer(**settings, buffer_memory=256 << 20) as producer:
        for number in range(count):
            group = number % GROUPS
            if generations and number % 100 == 0:
                name = f"group-{group:05d}"
                key, value = group_metadata_key(name), generation_of(name, number // GROUPS, now)
            else:
                key = keys[group][number // GROUPS % PARTITIONS]
                value = offset_commit_value(
                    offset=number, leader_epoch=0, metadata="", commit_timestamp=now + number // 1000
                )
            producer.send(TOPIC, value, key=key, partition=group % offsets_partitions)


def generation_of(group: str, generation: int, now: int) -> bytes:
    members = []
    for number in range(3):
        given = [part for part in range(PARTITIONS) if part % 3 == number]
        assigned = Assignment(assigned_partitions=[TopicPartitions(topic="events", partitions=given)])
        members.append(
            MemberMetadata(
                member_id=f"{group}-{number}-{generation}", client_id=f"client-{number}", client_host="/10.1.2.3",
                rebalance_timeout=300_000, session_timeout=45_000, assignment=encode_assignment(assigned),
                subscription=b"\x00\x01\x00\x00\x00\x01\x00\x06events",
            )
        )  # fmt: skip
    return group_metadata_value(
        protocol_type="consumer", generation=generation, protocol="range", leader=members[0].member_id,
        current_state_timestamp=now, members=members,
    )  # fmt: skip
