"""spark_source.*: the Spark source beside Spark's own Kafka connector, in one session, on the same topics.

One Apache Kafka 4.3.1 with default settings, Spark 4.2.0 on local[2], 4 million records with 100-byte values in 4
partitions (1 for the split), in batches of Kafka's default size. Both sources read the same rows with the same query,
in turn; sums over what was read are checked. Ours checks CRCs, as the connector's consumer does, and gives all default
columns. The peer is at its defaults.

``first_query`` starts a fresh session per run and takes the time from the ready session to the first result.
``commit_delay`` is from the file that ends a batch in the checkpoint to the group's offset, at long triggers with the
listener's commits, which is the worst place for them. ``commit_overhead`` is what the source reports that it took to
look at the group and to commit, as a share of all that Spark did for the batch, waiting for the next trigger not
included; the batches have a few records each, so there is as little work as can be to share it with, and the listener
commits nothing. ``worker_growth`` is the most that a Python worker has above what it had after its first batch.

Before a comparison both sources have read the same values of the topic, by their checksums, and each has run until it
got no faster.

SEAMARK_BENCH_QUICK=1 uses a tenth of the records and fewer runs.
"""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import seamark.spark
from benchmarks.claims import compare
from seamark.client import Admin, Producer
from seamark.client.admin.types import NewTopic
from seamark.topic_partition import TopicPartition
from tests.support.apache_kafka import ApacheKafka
from tests.support.spark_session import local_session, told_by

QUICK = os.environ.get("SEAMARK_BENCH_QUICK", "") not in ("", "0")
RECORDS = 400_000 if QUICK else 4_000_000
RUNS = 3 if QUICK else 5
FIRST_RUNS = 1 if QUICK else 5
SIZE = 100
# The workers of a user's session, not the quick ones of the tests.
SESSION = {"spark.driver.memory": "3g", "spark.pyspark.python": sys.executable}
SUMS = ("count(1) rows", "sum(length(value)) bytes")
NARROW = ("count(1) rows", "sum(offset + partition) bytes")
CHECKSUMS = ("count(1) rows", "sum(crc32(value)) bytes")
# A side is warm when a run is not faster than the best before by more than this share; after so many it has to do.
WARM_SHARE = 0.03
MOST_WARMING = 4 if QUICK else 10
COMMITS = 5 if QUICK else 10
OVERHEAD_BATCHES = 10 if QUICK else 40
WARM_BATCHES = 5 if QUICK else 20
TRIGGER_SECONDS = 3
DELAY_TOPIC = "spark-delay"


def measure() -> Iterator[dict[str, object]]:
    with ApacheKafka(java_options=["-Xmx1g"]) as kafka:
        for topic, partitions, codec in (
            ("spark-plain", 4, "none"),
            ("spark-one", 1, "none"),
            ("spark-lz4", 4, "lz4"),
            ("spark-zstd", 4, "zstd"),
        ):
            fill(kafka.bootstrap, topic, partitions, codec)
        with local_session(settings=SESSION, java_options="") as spark:
            seamark.spark.register(spark, commit_with={"kafka.bootstrap.servers": kafka.bootstrap})
            bench = Bench(spark, kafka.bootstrap)
            yield bench.rows("spark_source.batch", "spark-plain")
            yield bench.stream()
            yield bench.narrow()
            yield bench.rows("spark_source.lz4", "spark-lz4")
            yield bench.rows("spark_source.zstd", "spark-zstd")
            yield bench.split()
            yield bench.worker_growth()
            yield bench.commit_delay()
            # As by default: the source alone commits.
            seamark.spark.register(spark)
            yield bench.commit_overhead()
        yield first_query(kafka.bootstrap)


def fill(bootstrap: str, topic: str, partitions: int, codec: str) -> None:
    """Values of which half is random, so that codecs have something to do and something to gain."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions)]).raise_if_failed()
    values = values_of(topic)
    with Producer(bootstrap_servers=bootstrap, linger_ms=50, compression_type=codec) as producer:
        for number in range(RECORDS):
            producer.send(topic, values[number % 1000], partition=number % partitions)


def values_of(topic: str) -> list[bytes]:
    chance = random.Random(topic)
    return [chance.randbytes(SIZE // 2) + b"v" * (SIZE // 2) for _ in range(1000)]


def loaded(spark: SparkSession, source: str, bootstrap: str, topic: str, schema: str | None = None, **options: str):
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return (reader if schema is None else reader.schema(schema)).options(**options).load()


def warmed(run: Callable[[], float]) -> Callable[[], float]:
    """The run, after it has been made until it got no faster."""
    best = run()
    for _ in range(MOST_WARMING):
        rate = run()
        if rate <= best * (1 + WARM_SHARE):
            break
        best = rate
    return run


def check_rows(rows: int) -> int:
    if rows != RECORDS:
        raise AssertionError(f"read {rows} rows, not {RECORDS}")
    return rows


class Bench:
    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap

    def timed(
        self, source: str, topic: str, sums: tuple[str, str] = SUMS, schema: str | None = None, **options: str
    ) -> float:
        """Rows per second of one query over a whole topic."""
        began = time.perf_counter()
        row = loaded(self.spark, source, self.bootstrap, topic, schema, **options).selectExpr(*sums).collect()[0]
        seconds = time.perf_counter() - began
        if row.bytes != expected(topic)[sums]:
            raise AssertionError(f"{source} has {sums[1]} {row.bytes} of {topic}, not {expected(topic)[sums]}")
        return check_rows(row.rows) / seconds

    def compared(
        self, claim: str, topic: str, ours: Callable[[], float], peer: Callable[[], float]
    ) -> dict[str, object]:
        """Both sides over one topic, in turn, once each has read the topic right and is warm."""
        for source in ("seamark", "kafka"):
            self.timed(source, topic, CHECKSUMS)
        return compare(claim, "rows/s", "higher", warmed(ours), warmed(peer), RUNS)

    def rows(self, claim: str, topic: str) -> dict[str, object]:
        return self.compared(claim, topic, lambda: self.timed("seamark", topic), lambda: self.timed("kafka", topic))

    def narrow(self) -> dict[str, object]:
        def ours() -> float:
            return self.timed("seamark", "spark-plain", NARROW, "offset bigint, partition int")

        def peer() -> float:
            return self.timed("kafka", "spark-plain", NARROW)

        return self.compared("spark_source.narrow", "spark-plain", ours, peer)

    def split(self) -> dict[str, object]:
        def ours() -> float:
            return self.timed("seamark", "spark-one", minPartitions="4")

        def four() -> float:
            return self.timed("seamark", "spark-plain")

        self.timed("seamark", "spark-one", CHECKSUMS, minPartitions="4")
        return compare("spark_source.split", "rows/s", "higher", warmed(ours), warmed(four), RUNS)

    def stream(self) -> dict[str, object]:
        def rate(source: str) -> float:
            reader = self.spark.readStream.format(source).option("kafka.bootstrap.servers", self.bootstrap)
            frame = reader.option("subscribe", "spark-plain").option("startingOffsets", "earliest").load()
            with tempfile.TemporaryDirectory() as checkpoint:
                began = time.perf_counter()
                query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
                started = query.trigger(availableNow=True).start()
                started.awaitTermination()
                seconds = time.perf_counter() - began
                check_rows(sum(progress["numInputRows"] for progress in started.recentProgress))
            return RECORDS / seconds

        return self.compared("spark_source.stream", "spark-plain", lambda: rate("seamark"), lambda: rate("kafka"))

    def worker_growth(self) -> dict[str, object]:
        loaded(
            self.spark, "seamark", self.bootstrap, "spark-plain", endingOffsets=_ends("spark-plain", 70_000)
        ).selectExpr(*SUMS).collect()
        first = _worker_sizes()
        most = dict(first)
        is_done = threading.Event()

        def watch() -> None:
            while not is_done.wait(0.02):
                for pid, size in _worker_sizes().items():
                    most[pid] = max(most.get(pid, 0), size)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for _ in range(2):
                self.timed("seamark", "spark-plain")
        finally:
            is_done.set()
            watcher.join()
        growth = max((most[pid] - size) / 1e6 for pid, size in first.items())
        return _alone("spark_source.worker_growth", "MB", "lower", growth, workers=len(first))

    # -- commits

    def commit_delay(self) -> dict[str, object]:
        delays = []
        with self.committing("bench-delay", f"{TRIGGER_SECONDS} seconds") as (query, checkpoint):
            admin = Admin(bootstrap_servers=self.bootstrap)
            partition = TopicPartition(DELAY_TOPIC, 0)
            try:
                for number in range(1, COMMITS + 1):
                    self.produce_one()
                    batch = number
                    _wait(query, lambda batch=batch: (checkpoint / "commits" / str(batch)).exists())
                    began = time.perf_counter()
                    _wait(query, lambda number=number: _committed(admin, "bench-delay", partition) >= number)
                    delays.append(time.perf_counter() - began)
            finally:
                admin.close()
        delays.sort()
        return _alone(
            "spark_source.commit_delay", "s", "lower", delays[len(delays) // 2], worst=round(delays[-1], 3),
            trigger_s=TRIGGER_SECONDS,
        )  # fmt: skip

    def commit_overhead(self) -> dict[str, object]:
        spent: dict[int, tuple[float, float]] = {}
        with self.committing("bench-overhead", "1 second") as (query, _):
            began = time.monotonic()
            while len(spent) < OVERHEAD_BATCHES and time.monotonic() - began < 120:
                self.produce_one()
                time.sleep(0.3)
                for progress in query.recentProgress:
                    if progress["numInputRows"] and progress["batchId"] > WARM_BATCHES:
                        took = progress["durationMs"]["triggerExecution"]
                        spent[progress["batchId"]] = (told_by(progress)["commit_ms"], took)
        # Milliseconds are coarse for one commit, so the sums are compared and not the single shares.
        committing, working = (sum(each) for each in zip(*spent.values(), strict=True))
        return _alone(
            "spark_source.commit_overhead", "%", "lower", 100 * committing / working, batches=len(spent),
            commit_ms=round(committing / len(spent), 1), batch_ms=round(working / len(spent)),
        )  # fmt: skip

    @contextmanager
    def committing(self, group: str, trigger: str) -> Iterator[tuple[StreamingQuery, Path]]:
        """A query over a topic with one record per batch, its first (empty) batch done."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.delete_topics([DELAY_TOPIC])
            _until(lambda: not admin.create_topics([NewTopic(DELAY_TOPIC, 1)]).errors)
        reader = self.spark.readStream.format("seamark").option("kafka.bootstrap.servers", self.bootstrap)
        frame = reader.options(subscribe=DELAY_TOPIC, startingOffsets="earliest", groupId=group).load()
        with tempfile.TemporaryDirectory() as directory:
            writer = frame.writeStream.format("noop").option("checkpointLocation", directory)
            query = writer.trigger(processingTime=trigger).start()
            try:
                _wait(query, lambda: (Path(directory) / "commits" / "0").exists())
                yield query, Path(directory)
            finally:
                query.stop()

    def produce_one(self) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            producer.send(DELAY_TOPIC, b"v" * SIZE, partition=0)


def first_query(bootstrap: str) -> dict[str, object]:
    def seconds(source: str) -> float:
        command = [sys.executable, "-m", "benchmarks.spark_first_query", source, bootstrap, "spark-plain"]
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        rows, read, taken = run.stdout.split()[-3:]
        check_rows(int(rows))
        if int(read) != RECORDS * SIZE:
            raise AssertionError(f"{source} read {read} bytes of values, not {RECORDS * SIZE}")
        return float(taken)

    return compare(
        "spark_source.first_query", "s", "lower", lambda: seconds("seamark"), lambda: seconds("kafka"), FIRST_RUNS
    )


@functools.cache
def expected(topic: str) -> dict[tuple[str, str], int]:
    """What the queries over a topic have to give beside the number of its rows."""
    partitions = 1 if topic == "spark-one" else 4
    each = RECORDS // partitions
    checksums = sum(zlib.crc32(value) for value in values_of(topic)) * (RECORDS // 1000)
    offsets = partitions * (each * (each - 1) // 2) + each * sum(range(partitions))
    return {SUMS: RECORDS * SIZE, NARROW: offsets, CHECKSUMS: checksums}


def _alone(claim: str, unit: str, better: str, figure: float, **also: object) -> dict[str, object]:
    told = {"id": claim, "unit": unit, "better": better, "ours": float(f"{figure:.4g}"), "peer": None, "ratio": None}
    return told | also


def _ends(topic: str, offset: int) -> str:
    return json.dumps({topic: {str(index): min(offset, RECORDS // 4) for index in range(4)}})


def _worker_sizes() -> dict[int, int]:
    """Resident bytes of the Python workers: the children of Spark's daemon."""
    sizes = {}
    for process in psutil.Process().children(recursive=True):
        try:
            parent = process.parent()
            if parent is not None and "pyspark.daemon" in " ".join(parent.cmdline()):
                sizes[process.pid] = process.memory_info().rss
        except psutil.Error:
            continue
    return sizes


def _committed(admin: Admin, group: str, partition: TopicPartition) -> int:
    found = admin.list_group_offsets([group])
    return found[group][partition].offset if group in found and partition in found[group] else -1


def _wait(query: StreamingQuery, is_true) -> None:  # type: ignore[no-untyped-def]
    def check() -> bool:
        if query.exception() is not None:
            raise AssertionError(f"the query failed: {query.exception()}")
        return is_true()

    _until(check)


def _until(is_true) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + 60
    while not is_true():
        if time.monotonic() > end:
            raise AssertionError("not within 60 s")
        time.sleep(0.003)
