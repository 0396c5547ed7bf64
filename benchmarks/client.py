"""client.*: consuming as objects and as columns, producing, and what idle group members cost; beside Python's peers.

One Apache Kafka 4.3.1 with default settings on the same machine, one topic of 4 partitions, 4 million records with
100-byte values and small keys, uncompressed, in batches of Kafka's default size. Each run reads all of it with a new
consumer, from the first poll to the last record; connections are made before. A reader of objects touches key, value,
headers, offset and timestamp of every record, and the sum over them must be right. Peers are set up as fast as their
settings allow: confluent-kafka with a full queue and no back-off, aiokafka's getmany with the same fetch sizes as ours.
confluent-kafka checks no CRC unless it is told to; we and aiokafka always do.

``client.columns`` is for a program that computes with columns: the lengths of key and value, offset and timestamp of
every record are added up, by Arrow's functions on our side and record by record on the peer's, which has no other way,
and both sums must be right. ``client.columns.python`` is the same for a program that wants Python objects: our columns
are turned into lists of bytes and ints, which are added up as the peer adds up its records'.

Records of one length suit a reader that decodes alike records together, so each claim is also told for a topic whose
values have 20 to 180 bytes (``mixed_sizes``). Producing is in ``client_produce``.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.claims import QUICK, compare, compare_each, figures_of
from benchmarks.client_produce import produce_claim
from benchmarks.peer_kafka import peer_kafka
from seamark.client.admin.admin import Admin
from seamark.client.admin.types import NewTopic
from seamark.client.consumer.consumer import Consumer
from seamark.client.producer.producer import Producer
from seamark.topic_partition import TopicPartition

PARTITIONS = 4
KEYS = [b"key-%03d" % number for number in range(1000)]
BATCH_BYTES = 16_384
MEMBERS = 50
IDLE_SECONDS = 5.0 if QUICK else 20.0
RUNS = 5
# The broker deletes what is older than a week.
STAMP_MS = int(time.time() * 1000)


@dataclass(frozen=True)
class Filled:
    """A topic with known records."""

    topic: str
    count: int
    values: tuple[bytes, ...]

    def fill(self, bootstrap: str) -> None:
        """Write the records through our own producer; every reader checks their sum."""
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(self.topic, PARTITIONS)]).raise_if_failed()
        with Producer(bootstrap_servers=bootstrap, batch_size=BATCH_BYTES, linger_ms=50) as producer:
            keys, values = itertools.cycle(KEYS), itertools.cycle(self.values)
            for number in range(self.count):
                producer.send(
                    self.topic, next(values), key=next(keys), partition=number % PARTITIONS, timestamp_ms=STAMP_MS
                )

    def checked(self, count: int, total: int) -> int:
        """Offsets from 0 in each partition, and the sizes of keys and values."""
        each = self.count // PARTITIONS
        sizes = sum(map(len, itertools.islice(itertools.cycle(self.values), self.count)))
        expected = self.count * (len(KEYS[0]) + STAMP_MS) + sizes + PARTITIONS * (each * (each - 1) // 2)
        if (count, total) != (self.count, expected):
            raise AssertionError(f"read {count} records with the sum {total}, not {self.count} with {expected}")
        return count


Read = Callable[[str, Filled], float]
ALIKE = Filled("bench-client", 400_000 if QUICK else 4_000_000, (b"v" * 100,))
MIXED = Filled("bench-mixed", 200_000 if QUICK else 1_000_000, tuple(bytes(20 + n * 67 % 161) for n in range(161)))


def measure() -> list[dict[str, object]]:
    with peer_kafka() as kafka:
        bootstrap = kafka.bootstrap
        for filled in (ALIKE, MIXED):
            filled.fill(bootstrap)
        return [
            *reading_claims(bootstrap, {"client.objects.aiokafka": our_objects}, aiokafka_objects),
            *reading_claims(bootstrap, {"client.objects.confluent": our_objects}, confluent_objects),
            *reading_claims(
                bootstrap,
                {"client.columns": our_columns, "client.columns.python": our_columns_as_lists},
                confluent_lists,
            ),
            produce_claim(bootstrap),
            *idle_claims(bootstrap),
        ]


def reading_claims(bootstrap: str, ours: Mapping[str, Read], peer: Read) -> list[dict[str, object]]:
    def figures(filled: Filled, runs: int) -> list[dict[str, object]]:
        our_runs = {claim_id: lambda read=read: read(bootstrap, filled) for claim_id, read in ours.items()}
        return compare_each(our_runs, "records/s", "higher", lambda: peer(bootstrap, filled), runs)

    mixed = figures(MIXED, 3)
    alike = figures(ALIKE, RUNS)
    return [claim | {"mixed_sizes": figures_of(beside)} for claim, beside in zip(alike, mixed, strict=True)]


# -- consuming


@contextmanager
def our_consumer(bootstrap: str, filled: Filled) -> Iterator[Consumer]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.partitions_for(filled.topic)
        yield consumer


def our_objects(bootstrap: str, filled: Filled) -> float:
    count = total = 0
    with our_consumer(bootstrap, filled) as consumer:
        started = time.perf_counter()
        consumer.assign([TopicPartition(filled.topic, number) for number in range(PARTITIONS)])
        while count < filled.count:
            records = consumer.poll(5.0)
            for record in records:
                total += len(record.key) + len(record.value) + len(record.headers) + record.offset + record.timestamp_ms
            count += len(records)
        elapsed = time.perf_counter() - started
    return filled.checked(count, total) / elapsed


def our_columns(bootstrap: str, filled: Filled) -> float:
    return _columns(bootstrap, filled, _sum_of_columns)


def our_columns_as_lists(bootstrap: str, filled: Filled) -> float:
    return _columns(bootstrap, filled, _sum_of_lists)


def _columns(bootstrap: str, filled: Filled, sum_of: Callable[[Any], int]) -> float:
    count = total = 0
    with our_consumer(bootstrap, filled) as consumer:
        started = time.perf_counter()
        consumer.assign([TopicPartition(filled.topic, number) for number in range(PARTITIONS)])
        while count < filled.count:
            batch = consumer.poll_arrow(5.0)
            if batch is not None:
                total += sum_of(batch)
                count += batch.num_rows
        elapsed = time.perf_counter() - started
    return filled.checked(count, total) / elapsed


def _sum_of_columns(batch: Any) -> int:
    lengths = (pc.sum(pc.binary_length(batch[name])) for name in ("key", "value"))
    numbers = (pc.sum(batch[name].cast(pa.int64())) for name in ("offset", "timestamp"))
    return sum(each.as_py() for each in (*lengths, *numbers))


def _sum_of_lists(batch: Any) -> int:
    keys, values = batch["key"].to_pylist(), batch["value"].to_pylist()
    offsets, stamps_ms = (batch[name].cast(pa.int64()).to_pylist() for name in ("offset", "timestamp"))
    total = 0
    for key, value, offset, stamp_ms in zip(keys, values, offsets, stamps_ms, strict=True):
        total += len(key) + len(value) + offset + stamp_ms
    return total


def aiokafka_objects(bootstrap: str, filled: Filled) -> float:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as Partition

    async def read() -> float:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
        await consumer.start()
        count = total = 0
        try:
            started = time.perf_counter()
            consumer.assign([Partition(filled.topic, number) for number in range(PARTITIONS)])
            while count < filled.count:
                for records in (await consumer.getmany(timeout_ms=5000)).values():
                    for record in records:
                        total += len(record.key) + len(record.value) + len(record.headers) + record.offset
                        total += record.timestamp
                    count += len(records)
            elapsed = time.perf_counter() - started
        finally:
            await consumer.stop()
        return filled.checked(count, total) / elapsed

    return asyncio.run(read())


def _confluent(bootstrap: str):  # type: ignore[no-untyped-def]
    from confluent_kafka import Consumer as Peer

    return Peer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-peer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 200_000,
            "fetch.queue.backoff.ms": 5,
        }
    )


def confluent_objects(bootstrap: str, filled: Filled) -> float:
    from confluent_kafka import TopicPartition as Partition

    consumer = _confluent(bootstrap)
    count = total = 0
    try:
        consumer.list_topics(filled.topic, timeout=10)
        started = time.perf_counter()
        consumer.assign([Partition(filled.topic, number, 0) for number in range(PARTITIONS)])
        poll = consumer.poll
        while count < filled.count:
            record = poll(5.0)
            if record is None or record.error():
                continue
            total += len(record.key()) + len(record.value()) + len(record.headers() or ()) + record.offset()
            total += record.timestamp()[1]
            count += 1
        elapsed = time.perf_counter() - started
    finally:
        consumer.close()
    return filled.checked(count, total) / elapsed


def confluent_lists(bootstrap: str, filled: Filled) -> float:
    from confluent_kafka import TopicPartition as Partition

    consumer = _confluent(bootstrap)
    count = total = 0
    try:
        consumer.list_topics(filled.topic, timeout=10)
        started = time.perf_counter()
        consumer.assign([Partition(filled.topic, number, 0) for number in range(PARTITIONS)])
        while count < filled.count:
            for record in consumer.consume(10_000, 5.0):
                if record.error():
                    continue
                total += len(record.key()) + len(record.value()) + record.offset() + record.timestamp()[1]
                count += 1
        elapsed = time.perf_counter() - started
    finally:
        consumer.close()
    return filled.checked(count, total) / elapsed


# -- doing nothing

_IDLE = """
import sys, time, psutil
from seamark.client import Admin, Consumer
bootstrap, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
me = psutil.Process()
def member(number):
    made = Consumer(bootstrap_servers=bootstrap, group_id=f"bench-idle-{number % 5}", auto_offset_reset="latest")
    made.subscribe([sys.argv[4]])
    return made
first = member(0)
first.poll(1.0)
before = me.memory_info().rss
members = [first] + [member(number) for number in range(1, count)]
def are_members():
    with Admin(bootstrap_servers=bootstrap) as admin:
        groups = admin.describe_groups([f"bench-idle-{number}" for number in range(5)]).raise_if_failed().values()
    return all(group.state == "Stable" for group in groups) and sum(len(group.members) for group in groups) == count
deadline = time.monotonic() + 60
settled = time.monotonic() + 10
while time.monotonic() < settled or not are_members():
    assert time.monotonic() < deadline, "the groups did not become stable"
    for each in members:
        each.poll(0.01)
after = me.memory_info().rss
spent = sum(me.cpu_times()[:2])
time.sleep(seconds)
percent = (sum(me.cpu_times()[:2]) - spent) / seconds * 100
assert are_members(), "a group lost a member"
print(percent, (after - before) / (count - 1) / 1e6)
for each in members:
    each.close(5.0)
"""


def idle_claims(bootstrap: str) -> list[dict[str, object]]:
    """50 members in a process of their own that polled until their groups were stable, then only heartbeat."""
    figures: list[tuple[float, float]] = []

    def run() -> float:
        done = subprocess.run(
            [sys.executable, "-c", _IDLE, bootstrap, str(MEMBERS), str(IDLE_SECONDS), ALIKE.topic],
            capture_output=True,
            text=True,
            check=True,
        )
        percent, megabytes = map(float, done.stdout.split())
        figures.append((percent, megabytes))
        return percent

    cpu = compare("client.idle_cpu", "% of a core", "lower", run, None, runs=3, fresh_processes=True)
    memory = iter([megabytes for _, megabytes in figures])
    return [cpu, compare("client.idle_memory", "MB", "lower", lambda: next(memory), None, 3, fresh_processes=True)]
