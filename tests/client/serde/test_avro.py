"""Avro keys and values on the way from a producer to a consumer, and records that no schema explains."""

import asyncio
import time

import pytest

from seamark.client import AsyncConsumer, AsyncProducer, Avro, Consumer, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.errors import DeserializationFailed
from seamark.client.serde.schema_registry import RegistryError
from tests.support.schema_registry import FakeRegistry

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def registry():
    with FakeRegistry("me", "secret") as made:
        yield made


@pytest.fixture
def url(registry):
    return f"http://me:secret@{registry.address}"


@pytest.fixture
def partition(admin, fresh_name):
    name = fresh_name("avro")
    admin.create_topics([NewTopic(name, 1, 1)]).raise_if_failed()
    return TopicPartition(name, 0)


def read(consumer, count):
    found, deadline = [], time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(1.0)
    return found


def test_keys_and_values_travel_as_avro(kafka_like, partition, registry, url):
    key = Avro(url, schema="string")
    with Producer(bootstrap_servers=kafka_like.bootstrap, key=key, value=Avro(url, schema=ORDER)) as producer:
        producer.send(partition.topic, {"id": 1}, key="one")
        producer.send(partition.topic, None, key="one")
        producer.send_many(partition.topic, [{"id": 2}, {"id": 3}]).result(20)
    assert set(registry.subjects) == {f"{partition.topic}-key", f"{partition.topic}-value"}
    avro = Avro(url)
    settings = {"bootstrap_servers": kafka_like.bootstrap, "auto_offset_reset": "earliest"}
    with Consumer(**settings, key=avro, value=avro) as consumer:
        consumer.assign([partition])
        found = [(record.key, record.value) for record in read(consumer, 4)]
    assert found == [("one", {"id": 1}), ("one", None), (None, {"id": 2}), (None, {"id": 3})]


def test_a_record_that_is_not_avro_is_named_and_can_be_skipped(kafka_like, partition, url):
    with Producer(bootstrap_servers=kafka_like.bootstrap) as producer:
        producer.send(partition.topic, Avro(url, schema=ORDER).encode(partition.topic, "value", {"id": 1}))
        producer.send(partition.topic, b"poison")
        producer.send(partition.topic, b"\x00\x00\x00\x03\xe7\x02")
        producer.send(partition.topic, Avro(url, schema=ORDER).encode(partition.topic, "value", {"id": 4}))
    settings = {"bootstrap_servers": kafka_like.bootstrap, "auto_offset_reset": "earliest"}
    with Consumer(**settings, value=Avro(url)) as consumer:
        consumer.assign([partition])
        assert [record.value for record in read(consumer, 1)] == [{"id": 1}]
        for offset, reason in ((1, "begins with byte 112"), (2, "id 999: Schema not found")):
            with pytest.raises(DeserializationFailed, match=reason) as caught:
                read(consumer, 1)
            assert (caught.value.partition, caught.value.offset, caught.value.part) == (partition, offset, "value")
            assert "secret" not in str(caught.value)
            consumer.seek(partition, offset + 1)
        assert [record.value for record in read(consumer, 1)] == [{"id": 4}]


def test_a_registry_that_was_away_is_asked_again_by_the_next_poll(kafka_like, partition, registry, url):
    with Producer(bootstrap_servers=kafka_like.bootstrap) as producer:
        producer.send(partition.topic, Avro(url, schema=ORDER).encode(partition.topic, "value", {"id": 1}))
    settings = {"bootstrap_servers": kafka_like.bootstrap, "auto_offset_reset": "earliest"}
    with Consumer(**settings, value=Avro(url)) as consumer:
        consumer.assign([partition])
        registry.instead = (503, {}, b"")
        for _ in range(2):
            with pytest.raises(DeserializationFailed, match="HTTP 503"):
                read(consumer, 1)
        assert consumer.position(partition) == 0
        registry.instead = None
        assert [record.value for record in read(consumer, 1)] == [{"id": 1}]


def test_a_producer_tells_a_registry_that_is_away_from_a_bad_datum(kafka_like, partition, registry, url):
    with Producer(bootstrap_servers=kafka_like.bootstrap, value=Avro(url, schema=ORDER)) as producer:
        registry.instead = (503, {}, b"")
        with pytest.raises(RegistryError, match="HTTP 503"):
            producer.send(partition.topic, {"id": 1})
        registry.instead = None
        assert producer.send(partition.topic, {"id": 1}).result(20).offset == 0


def test_an_asyncio_program_prepares_its_schema_without_blocking_its_loop(kafka_like, partition, registry, url):
    async def run():
        avro = Avro(url, schema=ORDER)
        await asyncio.to_thread(avro.prepare, partition.topic)
        asked = len(registry.requests)
        async with AsyncProducer(bootstrap_servers=kafka_like.bootstrap, value=avro) as producer:
            await (await producer.send(partition.topic, {"id": 9}))
        assert len(registry.requests) == asked
        settings = {"bootstrap_servers": kafka_like.bootstrap, "auto_offset_reset": "earliest"}
        async with AsyncConsumer(**settings, value=avro) as consumer:
            await consumer.assign([partition])
            while not (records := await consumer.poll(1.0)):
                pass
            return [record.value for record in records]

    assert asyncio.run(asyncio.wait_for(run(), 30)) == [{"id": 9}]
