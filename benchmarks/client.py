"""client.*: consuming as objects and as columns, producing, and what idle group members cost; beside Python's peers.

One Apache Kafka 4.1.0 with default settings on the same machine, one topic of 4 partitions, 4 million records with
100-byte values and small keys, uncompressed, in batches of Kafka's default size. Each run reads all of it with a new
consumer, from the first poll to the last record; connections are made before. A reader of objects touches key, value,
headers, offset and timestamp of every record, and the sum over them must be right. Peers are set up as fast as their
settings allow: confluent-kafka with a full queue and no back-off, aiokafka's getmany with the same fetch sizes as ours.

Producing: 100-byte values without keys, acks=all, the same batch size for all. Ours is ``send_many`` (``send`` is told
beside it), the peer the better of aiokafka's ``send`` and ``send_batch``.

SEAMARK_BENCH_QUICK=1 uses a tenth of the records.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.claims import compare
from seamark.client.admin import Admin
from seamark.client.admin_types import NewTopic
from seamark.client.consumer import Consumer
from seamark.client.producer import Producer
from seamark.topic_partition import TopicPartition
from tests.support.apache_kafka import ApacheKafka

QUICK = os.environ.get("SEAMARK_BENCH_QUICK", "") not in ("", "0")
RECORDS = 400_000 if QUICK else 4_000_000
PARTITIONS = 4
TOPIC = "bench-client"
VALUE = b"v" * 100
KEYS = [b"key-%03d" % number for number in range(1000)]
BATCH_BYTES = 16_384
# Larger than Kafka's default for both sides: with small batches the broker is what is measured.
PRODUCE_BATCH_BYTES = 65_536
PRODUCED = 400_000 if QUICK else 2_000_000
MEMBERS = 50
IDLE_SECONDS = 5.0 if QUICK else 20.0
RUNS = 5
# The broker deletes what is older than a week.
STAMP_MS = int(time.time() * 1000)


def measure() -> list[dict[str, object]]:
    with ApacheKafka("4.1.0", java_options=["-Xmx1g"]) as kafka:
        bootstrap = kafka.bootstrap
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).raise_if_failed()
        fill(bootstrap)
        return [
            compare(
                "client.objects.aiokafka",
                "records/s",
                "higher",
                lambda: our_objects(bootstrap),
                lambda: aiokafka_objects(bootstrap),
                RUNS,
            ),
            compare(
                "client.objects.confluent",
                "records/s",
                "higher",
                lambda: our_objects(bootstrap),
                lambda: confluent_objects(bootstrap),
                RUNS,
            ),
            compare(
                "client.columns",
                "records/s",
                "higher",
                lambda: our_columns(bootstrap),
                lambda: confluent_lists(bootstrap),
                RUNS,
            ),
            compare(
                "client.produce",
                "records/s",
                "higher",
                lambda: our_produce_many(bootstrap),
                lambda: max(aiokafka_send(bootstrap), aiokafka_send_batch(bootstrap)),
                RUNS,
                ours_one_by_one=round(our_produce(bootstrap)),
            ),
            *idle_claims(bootstrap),
        ]


def fill(bootstrap: str) -> None:
    """Write the records through our own producer; every reader checks their sum."""
    with Producer(bootstrap_servers=bootstrap, batch_size=BATCH_BYTES, linger_ms=50) as producer:
        keys = itertools.cycle(KEYS)
        for number in range(RECORDS):
            producer.send(TOPIC, VALUE, key=next(keys), partition=number % PARTITIONS, timestamp_ms=STAMP_MS)


def checked(count: int, total: int) -> int:
    """Offsets from 0 in each partition, and the sizes of keys and values."""
    each = RECORDS // PARTITIONS
    expected = RECORDS * (len(KEYS[0]) + len(VALUE)) + PARTITIONS * (each * (each - 1) // 2)
    expected += RECORDS * STAMP_MS
    if (count, total) != (RECORDS, expected):
        raise AssertionError(f"read {count} records with the sum {total}, not {RECORDS} with {expected}")
    return count


# -- consuming


@contextmanager
def our_consumer(bootstrap: str) -> Iterator[Consumer]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.partitions_for(TOPIC)
        yield consumer


def our_objects(bootstrap: str) -> float:
    count = total = 0
    with our_consumer(bootstrap) as consumer:
        started = time.perf_counter()
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        while count < RECORDS:
            records = consumer.poll(5.0)
            for record in records:
                total += len(record.key) + len(record.value) + len(record.headers) + record.offset + record.timestamp_ms
            count += len(records)
        elapsed = time.perf_counter() - started
    return checked(count, total) / elapsed


def our_columns(bootstrap: str) -> float:
    count = 0
    with our_consumer(bootstrap) as consumer:
        started = time.perf_counter()
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        while count < RECORDS:
            batch = consumer.poll_arrow(5.0)
            if batch is not None:
                count += batch.num_rows
        elapsed = time.perf_counter() - started
    if count != RECORDS:
        raise AssertionError(f"read {count} records, not {RECORDS}")
    return count / elapsed


def aiokafka_objects(bootstrap: str) -> float:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as Partition

    async def read() -> float:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
        await consumer.start()
        count = total = 0
        try:
            started = time.perf_counter()
            consumer.assign([Partition(TOPIC, number) for number in range(PARTITIONS)])
            while count < RECORDS:
                for records in (await consumer.getmany(timeout_ms=5000)).values():
                    for record in records:
                        total += len(record.key) + len(record.value) + len(record.headers) + record.offset
                        total += record.timestamp
                    count += len(records)
            elapsed = time.perf_counter() - started
        finally:
            await consumer.stop()
        return checked(count, total) / elapsed

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


def confluent_objects(bootstrap: str) -> float:
    from confluent_kafka import TopicPartition as Partition

    consumer = _confluent(bootstrap)
    count = total = 0
    try:
        consumer.list_topics(TOPIC, timeout=10)
        started = time.perf_counter()
        consumer.assign([Partition(TOPIC, number, 0) for number in range(PARTITIONS)])
        poll = consumer.poll
        while count < RECORDS:
            record = poll(5.0)
            if record is None or record.error():
                continue
            total += len(record.key()) + len(record.value()) + len(record.headers() or ()) + record.offset()
            total += record.timestamp()[1]
            count += 1
        elapsed = time.perf_counter() - started
    finally:
        consumer.close()
    return checked(count, total) / elapsed


def confluent_lists(bootstrap: str) -> float:
    from confluent_kafka import TopicPartition as Partition

    consumer = _confluent(bootstrap)
    count = total = 0
    try:
        consumer.list_topics(TOPIC, timeout=10)
        started = time.perf_counter()
        consumer.assign([Partition(TOPIC, number, 0) for number in range(PARTITIONS)])
        while count < RECORDS:
            for record in consumer.consume(10_000, 5.0):
                if record.error():
                    continue
                total += len(record.key()) + len(record.value()) + len(record.headers() or ()) + record.offset()
                total += record.timestamp()[1]
                count += 1
        elapsed = time.perf_counter() - started
    finally:
        consumer.close()
    return checked(count, total) / elapsed


# -- producing

_topics = itertools.count(1)


def fresh_topic(bootstrap: str) -> str:
    name = f"bench-produce-{os.getpid()}-{next(_topics)}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS)]).raise_if_failed()
    # The leaders of a new topic are not ready at once; that is not what is measured.
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(PARTITIONS):
            producer.send(name, VALUE, partition=number).result(30)
    return name


def our_produce_many(bootstrap: str) -> float:
    topic = fresh_topic(bootstrap)
    values = [VALUE] * 10_000
    with Producer(bootstrap_servers=bootstrap, batch_size=PRODUCE_BATCH_BYTES) as producer:
        producer.partitions_for(topic)
        started = time.perf_counter()
        for _ in range(PRODUCED // len(values)):
            producer.send_many(topic, values)
        producer.flush(60)
        elapsed = time.perf_counter() - started
        _all_delivered(producer)
    return PRODUCED / elapsed


def our_produce(bootstrap: str) -> float:
    topic = fresh_topic(bootstrap)
    with Producer(bootstrap_servers=bootstrap, batch_size=PRODUCE_BATCH_BYTES) as producer:
        producer.partitions_for(topic)
        started = time.perf_counter()
        for _ in range(PRODUCED):
            producer.send(topic, VALUE)
        producer.flush(60)
        elapsed = time.perf_counter() - started
        _all_delivered(producer)
    return PRODUCED / elapsed


def _all_delivered(producer: Producer) -> None:
    delivered = producer.metrics()["seamark_producer_records_total"]
    if delivered != PRODUCED:
        raise AssertionError(f"{delivered:.0f} records were acknowledged, not {PRODUCED}")


def aiokafka_send(bootstrap: str) -> float:
    from aiokafka import AIOKafkaProducer

    topic = fresh_topic(bootstrap)
    count = PRODUCED // 4

    async def write() -> float:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", max_batch_size=PRODUCE_BATCH_BYTES, linger_ms=5
        )
        await producer.start()
        try:
            await producer.partitions_for(topic)
            started = time.perf_counter()
            for _ in range(count):
                await producer.send(topic, VALUE)
            await producer.flush()
            return count / (time.perf_counter() - started)
        finally:
            await producer.stop()

    return asyncio.run(write())


def aiokafka_send_batch(bootstrap: str) -> float:
    from aiokafka import AIOKafkaProducer

    topic = fresh_topic(bootstrap)

    async def write() -> float:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", max_batch_size=PRODUCE_BATCH_BYTES)
        await producer.start()
        try:
            await producer.partitions_for(topic)
            started = time.perf_counter()
            sent = 0
            turn = itertools.cycle(range(PARTITIONS))
            futures = []
            while sent < PRODUCED:
                batch = producer.create_batch()
                append = batch.append
                while sent < PRODUCED and append(key=None, value=VALUE, timestamp=None) is not None:
                    sent += 1
                futures.append(await producer.send_batch(batch, topic, partition=next(turn)))
            for future in futures:
                await future
            return sent / (time.perf_counter() - started)
        finally:
            await producer.stop()

    return asyncio.run(write())


# -- doing nothing

_IDLE = """
import sys, time, psutil
from seamark.client import Consumer
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
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    for each in members:
        each.poll(0.01)
    if time.monotonic() > deadline - 50:
        break
after = me.memory_info().rss
spent = sum(me.cpu_times()[:2])
time.sleep(seconds)
percent = (sum(me.cpu_times()[:2]) - spent) / seconds * 100
print(percent, (after - before) / (count - 1) / 1e6)
for each in members:
    each.close(5.0)
"""


def idle_claims(bootstrap: str) -> list[dict[str, object]]:
    """50 members in a process of their own that polled until they were assigned, and then do nothing but heartbeat."""
    figures: list[tuple[float, float]] = []

    def run() -> float:
        done = subprocess.run(
            [sys.executable, "-c", _IDLE, bootstrap, str(MEMBERS), str(IDLE_SECONDS), TOPIC],
            capture_output=True,
            text=True,
            check=True,
        )
        percent, megabytes = map(float, done.stdout.split())
        figures.append((percent, megabytes))
        return percent

    cpu = compare("client.idle_cpu", "% of a core", "lower", run, None, runs=3)
    memory = iter([megabytes for _, megabytes in figures])
    return [cpu, compare("client.idle_memory", "MB", "lower", lambda: next(memory), None, runs=3)]
