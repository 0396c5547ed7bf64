"""Fetching against every broker: what arrives, from where, and what happens when it cannot be read."""

import json
import threading
import time
from contextlib import contextmanager

import confluent_kafka
import pytest

from seamark.client import Consumer, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.errors import DeserializationFailed, OffsetOutOfRange
from seamark.errors import UsageError
from tests.support.produced import produce


@pytest.fixture
def topic(admin, fresh_name):
    name = fresh_name("fetch")
    # Records with timestamps of years ago must not be deleted under the test.
    admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "-1"})]).raise_if_failed()
    return name


@pytest.fixture
def consumer_of(kafka_like):
    made = []

    def make(*partitions, **options):
        options = {"auto_offset_reset": "earliest", **options}
        consumer = Consumer(bootstrap_servers=kafka_like.bootstrap, **options)
        made.append(consumer)
        consumer.assign(list(partitions))
        return consumer

    yield make
    for consumer in made:
        consumer.close(5.0)


def read(consumer, count, seconds=20.0):
    found, deadline = [], time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(0.5)
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_was_produced_is_consumed_whatever_the_codec(kafka_like, topic, consumer_of, codec):
    headers = [("trace", b"1"), ("empty", None)]
    with Producer(bootstrap_servers=kafka_like.bootstrap, compression_type=codec) as producer:
        for number in range(500):
            producer.send(
                topic, b"value %d" % number, key=b"%d" % number, partition=number % 2, headers=headers,
                timestamp_ms=1_700_000_000_000 + number,
            )  # fmt: skip
    found = read(consumer_of(TopicPartition(topic, 0), TopicPartition(topic, 1)), 500)
    assert sorted(int(record.key) for record in found) == list(range(500))
    for record in found:
        number = int(record.key)
        assert (record.topic, record.partition, record.offset) == (topic, number % 2, number // 2)
        assert (record.value, record.headers) == (b"value %d" % number, tuple(headers))
        assert (record.timestamp_ms, record.timestamp_type) == (1_700_000_000_000 + number, 0)
    for index in (0, 1):
        offsets = [record.offset for record in found if record.partition == index]
        assert offsets == sorted(offsets)


def test_a_log_larger_than_all_limits_is_read_whole_in_many_fetches(kafka_like, topic, consumer_of):
    # covers: K3, K8, K13
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=kafka_like.bootstrap, batch_size=2000) as producer:
        producer.send_many(topic, [b"%06d" % number * 20 for number in range(3000)], partition=0)
    limits = {"max_partition_fetch_bytes": 5000, "fetch_max_bytes": 9000, "prefetch_max_bytes": 20_000}
    consumer = consumer_of(partition, TopicPartition(topic, 1), **limits)
    found = read(consumer, 3000)
    assert [record.offset for record in found] == list(range(3000))
    assert [int(record.value[:6]) for record in found] == list(range(3000))
    metrics = consumer.metrics()
    assert metrics["seamark_consumer_fetches_total"] > 30
    assert metrics["seamark_consumer_rejected_fetch_answers_total"] == 0
    assert metrics["seamark_consumer_records_consumed_total"] == 3000


def test_no_more_bytes_wait_than_the_budget_allows(kafka_like, topic, consumer_of):
    with Producer(bootstrap_servers=kafka_like.bootstrap, batch_size=2000) as producer:
        producer.send_many(topic, [b"x" * 100] * 5000, partition=0)
    consumer = consumer_of(TopicPartition(topic, 0), max_partition_fetch_bytes=10_000, prefetch_max_bytes=40_000)
    read(consumer, 1)
    time.sleep(0.5)
    waiting = consumer.metrics()["seamark_consumer_prefetched_bytes"]
    # A broker sends a whole batch where a part of one would fit.
    assert 10_000 < waiting <= 40_000 + 2000, "it fetches ahead, within its bounds"
    assert len(read(consumer, 4500)) >= 4500


def test_poll_waits_for_records_that_come_later(kafka_like, topic, consumer_of):  # covers: K2, K5
    partition = TopicPartition(topic, 0)
    consumer = consumer_of(partition)
    assert consumer.poll(0.3) == []
    produce(kafka_like.bootstrap, partition, [b"late"])
    assert [record.value for record in read(consumer, 1)] == [b"late"]


def test_max_records_bounds_a_poll(kafka_like, topic, consumer_of):
    partition = TopicPartition(topic, 0)
    produce(kafka_like.bootstrap, partition, [b"%d" % number for number in range(10)])
    consumer = consumer_of(partition, max_poll_records=4)
    sizes = []
    while sum(sizes) < 10:
        sizes.append(len(consumer.poll(5.0)))
    assert sizes == [4, 4, 2]
    consumer.seek(partition, 0)
    assert len(consumer.poll(5.0, max_records=7)) == 7


def test_a_seek_drops_what_was_fetched_before(kafka_like, topic, consumer_of):
    partition = TopicPartition(topic, 0)
    produce(kafka_like.bootstrap, partition, [b"%d" % number for number in range(100)])
    consumer = consumer_of(partition)
    assert [record.offset for record in consumer.poll(5.0, max_records=3)] == [0, 1, 2]
    consumer.seek(partition, 90)
    assert [record.offset for record in read(consumer, 10)] == list(range(90, 100))
    consumer.seek(partition, 5)
    assert consumer.poll(5.0, max_records=1)[0].offset == 5
    assert consumer.position(partition) == 6


def test_a_paused_partition_is_kept_back_until_it_is_resumed(kafka_like, topic, consumer_of):
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for partition in (first, second):
        produce(kafka_like.bootstrap, partition, [b"%d" % number for number in range(20)])
    consumer = consumer_of(first, second)
    assert consumer.poll(5.0, max_records=1)
    consumer.pause([first])
    rest = read(consumer, 20, seconds=3.0)
    assert {record.partition for record in rest} == {1}
    consumer.resume([first])
    resumed = read(consumer, 40 - 1 - len(rest))
    assert {record.partition for record in resumed} >= {0}
    assert len(rest) + len(resumed) + 1 == 40


def test_a_poison_record_is_named_and_can_be_skipped(kafka_like, topic, consumer_of):
    partition = TopicPartition(topic, 0)
    values = [b'{"n": 0}', b'{"n": 1}', b"not json", b'{"n": 3}']
    produce(kafka_like.bootstrap, partition, values)
    consumer = consumer_of(partition, value=json.loads)
    assert [record.value["n"] for record in read(consumer, 2)] == [0, 1]
    for _ in range(2):
        with pytest.raises(DeserializationFailed, match=f"value of {topic}-0 at offset 2") as caught:
            consumer.poll(5.0)
        assert (caught.value.partition, caught.value.offset) == (partition, 2)
        assert caught.value.record.value == b"not json"
        assert isinstance(caught.value.__cause__, json.JSONDecodeError)
    assert consumer.position(partition) == 2
    consumer.seek(partition, caught.value.offset + 1)
    assert [record.value["n"] for record in read(consumer, 1)] == [3]


def test_keys_and_values_are_deserialized_and_nulls_stay(kafka_like, topic, consumer_of):
    with Producer(bootstrap_servers=kafka_like.bootstrap, key=int, value=str) as producer:
        producer.send(topic, "ünï", key=7, partition=0)
        producer.send(topic, None, partition=0)
    found = read(consumer_of(TopicPartition(topic, 0), key=int, value=str), 2)
    assert [(record.key, record.value) for record in found] == [(7, "ünï"), (None, None)]


def test_a_deserializer_that_is_none_is_refused_at_once(kafka_like):
    with pytest.raises(UsageError, match="value=3"):
        Consumer(bootstrap_servers=kafka_like.bootstrap, value=3)


def test_a_position_outside_the_log_is_reset_or_told(kafka_like, topic, consumer_of):
    partition = TopicPartition(topic, 0)
    produce(kafka_like.bootstrap, partition, [b"a", b"b"])
    consumer = consumer_of(partition)
    consumer.seek(partition, 1000)
    assert [record.offset for record in read(consumer, 2)] == [0, 1]
    strict = consumer_of(partition, auto_offset_reset="none")
    strict.seek(partition, 1000)
    with pytest.raises(OffsetOutOfRange, match=f"{topic}-0 at 1000"):
        read(strict, 1)
    strict.seek(partition, 1)
    assert [record.offset for record in read(strict, 1)] == [1]


def test_records_that_were_deleted_are_passed_by_the_reset_policy(kafka_like, admin, topic, consumer_of):
    partition = TopicPartition(topic, 0)
    produce(kafka_like.bootstrap, partition, [b"%d" % number for number in range(10)])
    admin.delete_records({partition: 6}).raise_if_failed()
    consumer = consumer_of(partition)
    consumer.seek(partition, 2)
    assert [record.offset for record in read(consumer, 4)] == [6, 7, 8, 9]


def test_lag_is_told_against_the_position(kafka_like, topic, consumer_of):  # covers: M4
    partition = TopicPartition(topic, 0)
    produce(kafka_like.bootstrap, partition, [b"x"] * 10)
    consumer = consumer_of(partition)
    consumer.poll(5.0, max_records=4)
    assert consumer.metrics()[f'seamark_consumer_records_lag{{topic="{topic}",partition="0"}}'] == 6
    assert consumer.metrics()["seamark_consumer_fetch_latency_max_ms"] >= 0


def test_a_topic_made_anew_is_read_from_its_start(kafka_like, admin, topic, consumer_of):
    partition = TopicPartition(topic, 0)
    produce(kafka_like.bootstrap, partition, [b"old"] * 5)
    consumer = consumer_of(partition, metadata_max_age_ms=500, allow_auto_create_topics=False)
    assert len(read(consumer, 5)) == 5
    admin.delete_topics([topic]).raise_if_failed()
    time.sleep(1.0)
    admin.create_topics([NewTopic(topic, 2, 1)]).raise_if_failed()
    produce(kafka_like.bootstrap, partition, [b"new"])
    assert [record.value for record in read(consumer, 1, seconds=30.0)] == [b"new"]


def test_records_are_read_while_others_write(kafka_like, topic, consumer_of):
    """Single records, fetched the moment they are there: answers hold more than their high watermark says."""
    count, partition = 4000, TopicPartition(topic, 0)

    def write():
        with confluent_producer(kafka_like.bootstrap) as producer:
            for number in range(count):
                producer.produce(topic, b"%d" % number, partition=0)
                producer.poll(0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = read(consumer_of(partition, fetch_max_wait_ms=1), count, 60.0)
    finally:
        writer.join()
    assert [int(record.value) for record in found] == list(range(count))


@contextmanager
def confluent_producer(bootstrap):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.num.messages": 1, "enable.idempotence": True}
    )
    yield producer
    assert producer.flush(60) == 0
