"""Row for row what Spark's own Kafka source reads, over random topics on Apache Kafka.

Headers, nulls and tombstones, every codec, producer's and broker's times, transactions that were committed and aborted,
and offsets that compaction removed. A failing run names its seed; SEAMARK_SEED repeats it.
"""

from __future__ import annotations

import json
import os
import random
import time

import pytest

from seamark.client import Admin, ColumnReader, Producer, TopicPartition
from seamark.client.admin.types import NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEED = int(os.environ.get("SEAMARK_SEED") or random.SystemRandom().randrange(2**32))
NOW_MS = int(time.time() * 1000)


def some_bytes(chance):
    return None if chance.random() < 0.15 else chance.randbytes(chance.choice((0, 1, 5, 40, 700)))


def some_headers(chance):
    names = ("", "a", "trace", "größe")
    return [(chance.choice(names), some_bytes(chance)) for _ in range(chance.choice((0, 0, 0, 1, 2, 5)))]


def fill(bootstrap, topic, chance, count, partitions):
    """Through our producer, one codec after the other."""
    for codec in CODECS:
        with Producer(bootstrap_servers=bootstrap, compression_type=codec, batch_size=2000) as producer:
            for _ in range(count // len(CODECS)):
                producer.send(
                    topic,
                    some_bytes(chance),
                    key=some_bytes(chance),
                    headers=some_headers(chance),
                    partition=chance.randrange(partitions),
                    timestamp_ms=NOW_MS - chance.randrange(10**8),
                )


def write_transactions(bootstrap, topic, chance, name):
    """Through confluent-kafka: some committed, some aborted, one left open."""
    from confluent_kafka import Producer as Transactional

    for number in range(6):
        settings = {"bootstrap.servers": bootstrap, "transactional.id": f"{name}-{number}", "linger.ms": 5}
        producer = Transactional({**settings, "compression.type": chance.choice(CODECS)})
        producer.init_transactions(30)
        producer.begin_transaction()
        for index in range(chance.randrange(1, 40)):
            producer.produce(topic, value=b"%d" % index, key=some_bytes(chance), partition=chance.randrange(2))
        producer.flush(30)
        if number == 5:
            # Left open: read_committed ends before it. It is aborted below, after the comparison.
            return producer
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    raise AssertionError("not reached")


@pytest.fixture(scope="module")
def topics(apache_kafka):
    """Random topics; the open transaction is ended when the module is done."""
    chance = random.Random(SEED)
    names = {kind: f"same-{kind}-{SEED}" for kind in ("plain", "append", "transactions", "compacted")}
    with Admin(bootstrap_servers=apache_kafka.bootstrap, default_api_timeout_ms=30_000) as admin:
        compacted = {
            "cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "0",
        }  # fmt: skip
        admin.create_topics(
            [
                NewTopic(names["plain"], 3),
                NewTopic(names["append"], 2, config={"message.timestamp.type": "LogAppendTime"}),
                NewTopic(names["transactions"], 2),
                NewTopic(names["compacted"], 1, config=compacted),
            ]
        ).raise_if_failed()
        for _ in range(3):
            with Producer(bootstrap_servers=apache_kafka.bootstrap, compression_type="lz4") as producer:
                for number in range(200):
                    value = None if number % 9 == 0 else b"%d" % number
                    producer.send(names["compacted"], value, key=b"%d" % (number % 50))
            time.sleep(0.1)
    fill(apache_kafka.bootstrap, names["plain"], chance, 1500, 3)
    fill(apache_kafka.bootstrap, names["append"], chance, 300, 2)
    fill(apache_kafka.bootstrap, names["transactions"], chance, 100, 2)
    producer = write_transactions(apache_kafka.bootstrap, names["transactions"], chance, f"same-{SEED}")
    yield names
    producer.abort_transaction(30)


def rows(spark, source, bootstrap, **options):
    chosen = {"kafka.bootstrap.servers": bootstrap, "includeHeaders": "true", **options}
    frame = spark.read.format(source).options(**chosen).load()
    return frame.schema, sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def assert_same(spark, bootstrap, **options):
    theirs_schema, theirs = rows(spark, "kafka", bootstrap, **options)
    ours_schema, ours = rows(spark, "seamark", bootstrap, **options)
    assert ours_schema == theirs_schema
    assert len(ours) == len(theirs), f"seed {SEED}"
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other, f"seed {SEED}"
    return ours


def test_all_kinds_of_records_and_codecs(spark_with_connector, apache_kafka, topics):
    everything = assert_same(
        spark_with_connector, apache_kafka.bootstrap, subscribe=f"{topics['plain']},{topics['append']}"
    )

    assert len(everything) == 1800
    assert {row.timestampType for row in everything} == {0, 1}
    assert any(row.headers is None for row in everything)
    assert any(row.headers and any(header.value is None for header in row.headers) for row in everything)
    assert any(row.value is None for row in everything)
    assert any(row.value is not None and len(row.value) == 0 for row in everything)


def test_split_ranges_and_times(spark_with_connector, apache_kafka, topics):
    assert_same(spark_with_connector, apache_kafka.bootstrap, subscribePattern="same-pl.*", minPartitions="7")
    between = {"startingTimestamp": str(NOW_MS - 7 * 10**7), "endingTimestamp": str(NOW_MS - 3 * 10**7)}
    assert_same(spark_with_connector, apache_kafka.bootstrap, subscribe=topics["plain"], **between)
    some = {topics["plain"]: {"0": 17, "1": -2, "2": 100}}
    assert_same(
        spark_with_connector, apache_kafka.bootstrap, subscribe=topics["plain"], startingOffsets=json.dumps(some)
    )


def test_transactions_at_both_isolation_levels(spark_with_connector, apache_kafka, topics):
    counts = [
        len(
            assert_same(
                spark_with_connector,
                apache_kafka.bootstrap,
                subscribe=topics["transactions"],
                **{"kafka.isolation.level": level},
            )
        )
        for level in ("read_uncommitted", "read_committed")
    ]

    assert 100 < counts[1] < counts[0]


def test_compacted_gaps(spark_with_connector, apache_kafka, topics):
    partition = TopicPartition(topics["compacted"], 0)
    end = time.monotonic() + 120
    with ColumnReader(bootstrap_servers=apache_kafka.bootstrap) as reader:
        while sum(batch.num_rows for batch in reader.fetch_columns(partition, 0, 600)) == 600:
            assert time.monotonic() < end, "the broker did not compact the topic"
            time.sleep(0.5)

    ours = assert_same(spark_with_connector, apache_kafka.bootstrap, subscribe=topics["compacted"])

    assert len(ours) < 600
