"""The broker beside Apache Kafka 4.3.1: commits, produce, consume, start and memory, as one process each.

Kafka runs with the options its own start script gives it, once with its defaults and once with
``group.coordinator.append.linger.ms=0``; ours is ``seamark broker --data DIR``. Both write to real files and neither
syncs per request. Producer and consumer are confluent-kafka's on both sides. What was written is counted by the ends of
the partitions, what was read by the consumer's positions behind the last record.

``broker.commit_p99_crowd`` is for 16 workers that commit as fast as they can beside the crowd; ``.64`` and ``.256`` are
for more of them.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.broker_groups import commit_many_groups
from benchmarks.broker_process import BrokerProcess
from benchmarks.claims import QUICK as IS_QUICK
from benchmarks.claims import compare
from benchmarks.go_load import commit_load_program
from benchmarks.peer_kafka import peer_kafka
from seamark.wire.protocol.frames import encode_request
from seamark.wire.protocol.messages.metadata import MetadataRequest
from tests.support.apache_kafka import ApacheKafka
from tests.support.capture import CaptureError, exchange

NO_LINGER = {"group.coordinator.append.linger.ms": 0}
PARTITIONS = 4
RECORD = b"x" * 100


@dataclass(frozen=True)
class Length:
    """How long everything takes."""

    warm_seconds: int
    commit_seconds: int
    runs: int
    records: int
    groups: int


FULL = Length(warm_seconds=10, commit_seconds=4, runs=5, records=4_000_000, groups=100_000)
QUICK = Length(warm_seconds=3, commit_seconds=2, runs=2, records=400_000, groups=10_000)


def measure() -> Iterator[dict[str, object]]:
    length = QUICK if IS_QUICK else FULL
    with ExitStack() as running:
        place = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="seamark-bench-")))
        yield from memory_claims(place, length)
        ours = running.enter_context(BrokerProcess(place / "ours"))
        kafka = running.enter_context(peer_kafka())
        tuned = running.enter_context(peer_kafka(NO_LINGER))
        yield from commit_claims(ours, kafka, tuned, length)
        kafka.close()
        yield from record_claims(ours, tuned, length)
        ours.stop()
        tuned.close()
        # Both on a directory that is nearly empty: how long old logs take is another question.
        fresh = running.enter_context(peer_kafka())
        fresh.stop()
        yield start_claim(BrokerProcess(place / "fresh"), fresh, length)


# -- commits


def commit_load(bootstrap: str, workers: int, seconds: int) -> dict[str, Any]:
    command = [commit_load_program(), bootstrap, str(workers), str(seconds), str(PARTITIONS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 120)
    told: dict[str, Any] = json.loads(done.stdout)
    if told["failed_partitions"]:
        raise RuntimeError(f"{told['failed_partitions']} partitions were not committed")
    return told


def commit_claims(
    ours: BrokerProcess, kafka: ApacheKafka, tuned: ApacheKafka, length: Length
) -> Iterator[dict[str, object]]:
    # Beside what the clock says: processor time of our process per commit, which a busy machine changes much less.
    processor_us: list[float] = []

    def load(broker: BrokerProcess | ApacheKafka, workers: int, figure: str) -> Callable[[], float]:
        def run() -> float:
            before = broker.processor_seconds() if isinstance(broker, BrokerProcess) else 0.0
            told = commit_load(broker.bootstrap, workers, length.commit_seconds)
            if isinstance(broker, BrokerProcess):
                # Each worker makes one commit that is not counted.
                processor_us.append(1e6 * (broker.processor_seconds() - before) / (told["commits"] + workers))
            return float(told[figure])

        return run

    for broker in (ours, kafka, tuned):
        commit_load(broker.bootstrap, 256, length.warm_seconds)
    for claim_id, peer in (("broker.commits_256.tuned", tuned), ("broker.commits_256.default", kafka)):
        processor_us.clear()
        compared = compare(
            claim_id,
            "commits/s",
            "higher",
            load(ours, 256, "commits_per_s"),
            load(peer, 256, "commits_per_s"),
            length.runs,
        )
        yield compared | {"our_processor_us_per_commit": round(statistics.median(processor_us), 1)}
    yield compare("broker.commit_p50_1", "ms", "lower", load(ours, 1, "p50_ms"), load(tuned, 1, "p50_ms"), length.runs)
    with crowd(ours.bootstrap), crowd(tuned.bootstrap):
        for claim_id, workers in CROWD_WORKERS.items():
            yield compare(
                claim_id,
                "ms",
                "lower",
                load(ours, workers, "p99_ms"),
                load(tuned, workers, "p99_ms"),
                length.runs,
                workers=workers,
            )


# The claim is for enough commits at once to queue up behind each other and too few to keep a broker busy by themselves.
CROWD_WORKERS = {
    "broker.commit_p99_crowd": 16,
    "broker.commit_p99_crowd.64": 64,
    "broker.commit_p99_crowd.256": 256,
}
CROWD = ("2000", "500", "100")


@contextmanager
def crowd(bootstrap: str) -> Iterator[None]:
    """2,000 connections and 500 heartbeating members in 100 groups, and proof that they stayed."""
    command = [sys.executable, "-m", "benchmarks.crowd", bootstrap, *CROWD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the crowd could not gather")
            yield
            process.stdin.close()
            told = json.loads(process.stdout.readline())
            if told["lost"] or told["joined_again"] or not told["heartbeats"]:
                raise RuntimeError(f"the crowd did not stay: {told}")
        finally:
            process.kill()


# -- records


def record_claims(ours: BrokerProcess, peer: ApacheKafka, length: Length) -> Iterator[dict[str, object]]:
    """Each run writes a topic of its own; the last one is what consumers read."""
    topics: dict[str, str] = {}

    def produce(broker: BrokerProcess | ApacheKafka) -> Callable[[], float]:
        def run() -> float:
            topics[broker.bootstrap] = replace_topic(broker.bootstrap, topics.get(broker.bootstrap))
            return produced_per_second(broker.bootstrap, topics[broker.bootstrap], length.records)

        return run

    def consume(broker: BrokerProcess | ApacheKafka) -> Callable[[], float]:
        return lambda: consumed_per_second(broker.bootstrap, topics[broker.bootstrap], length.records)

    yield compare("broker.produce", "records/s", "higher", produce(ours), produce(peer), length.runs)
    # The client is what takes the time here, and its runs differ by more than the brokers do.
    yield compare("broker.consume", "records/s", "higher", consume(ours), consume(peer), 3 * length.runs)


def replace_topic(bootstrap: str, old: str | None) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if old is not None:
        admin.delete_topics([old])[old].result(30)
    name = f"records-{time.monotonic_ns()}"
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    return name


def produced_per_second(bootstrap: str, topic: str, records: int) -> float:
    options = {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
    producer = Producer(options)
    producer.list_topics(topic, 30)
    share = 10_000
    begin = time.perf_counter()
    for first in range(0, records, share):
        batch = [{"value": RECORD} for _ in range(share)]
        partition = first // share % PARTITIONS
        while batch:
            producer.produce_batch(topic, batch, partition=partition)
            # What did not fit into the queue carries its error; it is offered again when there is room.
            batch = [{"value": RECORD} for each in batch if "_error" in each]
            producer.poll(0.02 if batch else 0)
    if producer.flush(120):
        raise RuntimeError("not everything was written")
    seconds = time.perf_counter() - begin
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check"})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), 30)[1] for number in range(PARTITIONS)]
    consumer.close()
    if sum(ends) != records:
        raise RuntimeError(f"{sum(ends)} of {records} records are there")
    return records / seconds


def consumed_per_second(bootstrap: str, topic: str, records: int) -> float:
    options = {
        "bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False,
        "queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 5, "queued.max.messages.kbytes": 200_000,
        # The producer's batches are a little larger than the default, which would cut them.
        "max.partition.fetch.bytes": 4 << 20,
    }  # fmt: skip
    consumer = Consumer(options)
    partitions = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    begin = time.perf_counter()
    count = 0
    while count < records:
        messages = consumer.consume(10_000, 30)
        if not messages:
            raise RuntimeError(f"only {count} of {records} records came")
        count += len(messages)
    seconds = time.perf_counter() - begin
    # An error comes in the place of a record and would be counted as one; it moves no position.
    positions = [each.offset for each in consumer.position(partitions)]
    consumer.close()
    if sum(positions) != records:
        raise RuntimeError(f"{sum(positions)} of {records} records were read")
    return records / seconds


# -- start and memory


def start_claim(ours: BrokerProcess, peer: ApacheKafka, length: Length) -> dict[str, object]:
    def seconds_to_metadata(broker: BrokerProcess | ApacheKafka) -> Callable[[], float]:
        def run() -> float:
            begin = time.perf_counter()
            broker.start()
            wait_for_metadata(broker.bootstrap)
            seconds = time.perf_counter() - begin
            broker.stop()
            return seconds

        return run

    return compare(
        "broker.start",
        "s",
        "lower",
        seconds_to_metadata(ours),
        seconds_to_metadata(peer),
        length.runs,
        fresh_processes=True,
    )


def wait_for_metadata(bootstrap: str) -> None:
    frame = encode_request(MetadataRequest(topics=None), 9, 1, "bench")
    while True:
        with suppress(CaptureError):
            exchange(bootstrap, frame)
            return
        time.sleep(0.005)


def memory_claims(place: Path, length: Length) -> Iterator[dict[str, object]]:
    idle: list[float] = []
    full: list[float] = []
    for number in range(length.runs):
        data = place / f"memory-{number}"
        with BrokerProcess(data) as broker:
            wait_for_metadata(broker.bootstrap)
            time.sleep(2)
            idle.append(broker.resident_mb())
            commit_many_groups(broker.bootstrap, length.groups, PARTITIONS)
            full.append(broker.resident_mb())
        shutil.rmtree(data)
    for claim_id, figures in (("broker.idle_memory", idle), ("broker.many_groups_memory", full)):
        yield {
            "id": claim_id, "unit": "MB", "better": "lower", "ours": round(statistics.median(figures), 1),
            "peer": None, "ratio": None, "runs": length.runs,
        }  # fmt: skip
