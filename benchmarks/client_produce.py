"""client.produce: 100-byte values without keys, acks=all, the same batch size for all, beside aiokafka.

Like is compared with like. aiokafka's faster way is ``send_batch``: the program fills a batch by one call per record
and gets one future for all of it. Ours is ``send_many``: the program makes a list by one step per record, which is
timed too, and gets the outcome of each record. Beside the claim stand ``send`` against ``send``, a call and a future
per record on both sides (``one_by_one``), and the claim's own way with values of 20 to 180 bytes (``mixed_sizes``).
The ends of the partitions must say that all records of a run were written.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Iterator

from benchmarks.claims import QUICK, compare, figures_of
from seamark.client.admin.admin import Admin
from seamark.client.admin.types import NewTopic
from seamark.client.producer.producer import Producer
from seamark.topic_partition import TopicPartition

PARTITIONS = 4
# Larger than Kafka's default for both sides: with small batches the broker is what is measured.
BATCH_BYTES = 65_536
COUNT = 400_000 if QUICK else 2_000_000
# One by one takes several times as long.
FEWER = COUNT // 4
# As many as a program would hand over at a time.
AT_ONCE = 10_000
RUNS = 5
ALIKE = (b"v" * 100,)
MIXED = tuple(bytes(20 + number * 67 % 161) for number in range(161))


def produce_claim(bootstrap: str) -> dict[str, object]:
    def beside(ours, peer, *values) -> dict[str, object]:  # type: ignore[no-untyped-def]
        return figures_of(
            compare("", "records/s", "higher", lambda: ours(bootstrap, *values), lambda: peer(bootstrap, *values), 3)
        )

    claim = compare(
        "client.produce",
        "records/s",
        "higher",
        lambda: our_send_many(bootstrap, ALIKE),
        lambda: max(aiokafka_send(bootstrap), aiokafka_send_batch(bootstrap, ALIKE)),
        RUNS,
    )
    return claim | {
        "one_by_one": beside(our_send, aiokafka_send),
        "mixed_sizes": beside(our_send_many, aiokafka_send_batch, MIXED),
    }


_topics = itertools.count(1)


def fresh_topic(bootstrap: str) -> str:
    name = f"bench-produce-{os.getpid()}-{next(_topics)}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS)]).raise_if_failed()
    # The leaders of a new topic are not ready at once; that is not what is measured.
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(PARTITIONS):
            producer.send(name, b"ready", partition=number).result(30)
    return name


def source(values: tuple[bytes, ...], count: int) -> Iterator[bytes]:
    """What a program has to send, one after the other."""
    return itertools.islice(itertools.cycle(values), count)


def our_send_many(bootstrap: str, values: tuple[bytes, ...]) -> float:
    topic = fresh_topic(bootstrap)
    with Producer(bootstrap_servers=bootstrap, batch_size=BATCH_BYTES) as producer:
        producer.partitions_for(topic)
        records = source(values, COUNT)
        runs = []
        started = time.perf_counter()
        while some := [value for value in itertools.islice(records, AT_ONCE)]:  # noqa: C416 - a step per record
            runs.append(producer.send_many(topic, some))
        producer.flush(60)
        elapsed = time.perf_counter() - started
        if not all(run.done() for run in runs):
            raise AssertionError("a record has no outcome")
    check_written(bootstrap, topic, COUNT)
    return COUNT / elapsed


def our_send(bootstrap: str) -> float:
    topic = fresh_topic(bootstrap)
    with Producer(bootstrap_servers=bootstrap, batch_size=BATCH_BYTES) as producer:
        producer.partitions_for(topic)
        started = time.perf_counter()
        for value in source(ALIKE, FEWER):
            producer.send(topic, value)
        producer.flush(60)
        elapsed = time.perf_counter() - started
    check_written(bootstrap, topic, FEWER)
    return FEWER / elapsed


def check_written(bootstrap: str, topic: str, count: int) -> None:
    latest = {TopicPartition(topic, number): "latest" for number in range(PARTITIONS)}
    with Admin(bootstrap_servers=bootstrap) as admin:
        ends = admin.list_offsets(latest).raise_if_failed().values()
    # One record in each partition made the topic ready.
    written = sum(end.offset for end in ends) - PARTITIONS
    if written != count:
        raise AssertionError(f"{written} records were written, not {count}")


def aiokafka_send(bootstrap: str) -> float:
    from aiokafka import AIOKafkaProducer

    topic = fresh_topic(bootstrap)

    async def write() -> float:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", max_batch_size=BATCH_BYTES, linger_ms=5)
        await producer.start()
        try:
            await producer.partitions_for(topic)
            started = time.perf_counter()
            for value in source(ALIKE, FEWER):
                await producer.send(topic, value)
            await producer.flush()
            return time.perf_counter() - started
        finally:
            await producer.stop()

    elapsed = asyncio.run(write())
    check_written(bootstrap, topic, FEWER)
    return FEWER / elapsed


def aiokafka_send_batch(bootstrap: str, values: tuple[bytes, ...]) -> float:
    from aiokafka import AIOKafkaProducer

    topic = fresh_topic(bootstrap)

    async def write() -> float:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", max_batch_size=BATCH_BYTES)
        await producer.start()
        try:
            await producer.partitions_for(topic)
            turn = itertools.cycle(range(PARTITIONS))
            futures = []
            started = time.perf_counter()
            batch = producer.create_batch()
            append = batch.append
            for value in source(values, COUNT):
                if append(key=None, value=value, timestamp=None) is None:
                    futures.append(await producer.send_batch(batch, topic, partition=next(turn)))
                    batch = producer.create_batch()
                    append = batch.append
                    append(key=None, value=value, timestamp=None)
            futures.append(await producer.send_batch(batch, topic, partition=next(turn)))
            for future in futures:
                await future
            return time.perf_counter() - started
        finally:
            await producer.stop()

    elapsed = asyncio.run(write())
    check_written(bootstrap, topic, COUNT)
    return COUNT / elapsed
