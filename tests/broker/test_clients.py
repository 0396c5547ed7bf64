"""Clients of others over real sockets, without groups: kafka-python and aiokafka produce, consume and administer."""

import asyncio
import warnings

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition

from seamark import Broker
from tests.support.broker_driver import fresh_name

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic
    from kafka.errors import TopicAlreadyExistsError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module", params=[None, "2.4"], ids=["newest", "as 2.4"])
def broker(request):
    with Broker(nodes=2, max_versions=request.param) as running:
        yield running


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_kafka_python_reads_what_it_wrote(broker, compression):
    topic = fresh_name()
    broker.create_topic(topic, 3)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=compression)
    sent = {f"key-{n}".encode(): f"value-{n}".encode() * 10 for n in range(200)}
    futures = [producer.send(topic, value, key=key, headers=[("h", b"1")]) for key, value in sent.items()]
    producer.flush(20)
    assert sum(future.get(10).offset >= 0 for future in futures) == 200
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=10_000)
    partitions = [TopicPartition(topic, index) for index in range(3)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    found = {}
    for record in consumer:
        found[record.key] = record.value
        assert record.headers == [("h", b"1")]
        if len(found) == 200:
            break
    assert found == sent
    assert sum(consumer.end_offsets(partitions).values()) == 200
    consumer.close()


def test_kafka_python_makes_a_topic_by_writing_to_it(broker):
    topic = fresh_name()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    assert producer.send(topic, b"first").get(20).offset == 0
    producer.close()


def test_kafka_python_administers(broker):
    topic = fresh_name()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(topic, 2, 2)])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 2, 2)])
    assert topic in admin.list_topics()
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_aiokafka_reads_what_it_wrote(broker, idempotent, compression):
    topic = fresh_name()
    broker.create_topic(topic, 2)

    async def story():
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            enable_idempotence=idempotent,
            acks="all",
            compression_type=compression,
        )
        await producer.start()
        try:
            for number in range(100):
                await producer.send(topic, b"%d" % number, partition=number % 2)
            await producer.flush()
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
        await consumer.start()
        try:
            partitions = [AioTopicPartition(topic, index) for index in range(2)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            found = []
            while len(found) < 100:
                batches = await consumer.getmany(timeout_ms=5000)
                assert batches
                found += [record.value for records in batches.values() for record in records]
            return found
        finally:
            await consumer.stop()

    assert sorted(asyncio.run(story())) == sorted(b"%d" % number for number in range(100))


def test_aiokafka_goes_on_when_a_node_stops():
    with Broker(nodes=3) as broker:
        broker.create_topic("moving", 3)

        async def story():
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
            await producer.start()
            try:
                for number in range(60):
                    if number == 20:
                        await asyncio.to_thread(broker.nodes[1].stop)
                    if number == 40:
                        await asyncio.to_thread(broker.nodes[1].start)
                    await producer.send_and_wait("moving", b"%d" % number, partition=number % 3)
            finally:
                await producer.stop()

        asyncio.run(asyncio.wait_for(story(), 60))
        ends = [broker._server.cluster.partition("moving", index).log_end for index in range(3)]
        assert ends == [20, 20, 20]
