"""Clients made in the manner of other Python clients: topics in the constructor, deserializers by their long names."""

import asyncio
import json
import re
from itertools import islice

import pytest

from seamark.client import AsyncConsumer, AsyncProducer, Consumer, NewTopic, Producer
from tests.support.consumers import QUICK

ORDERS = [{"id": number} for number in range(5)]


@pytest.fixture
def topic(admin, fresh_name):
    name = fresh_name("orders")
    admin.create_topics([NewTopic(name, 1, 1)]).raise_if_failed()
    return name


@pytest.fixture
def keywords(kafka_like, fresh_name):
    config = {**QUICK, "bootstrap.servers": kafka_like.bootstrap, "group.id": fresh_name("group")}
    return {name.replace(".", "_"): value for name, value in config.items()}


@pytest.mark.parametrize("wanted", ["a name", "a list", "a pattern"])
def test_a_consumer_reads_the_topics_that_it_was_made_with(keywords, topic, wanted):
    servers = keywords["bootstrap_servers"]
    with Producer(
        bootstrap_servers=servers,
        key_serializer=str.encode,
        value_serializer=lambda order: json.dumps(order).encode(),
    ) as producer:
        for order in ORDERS:
            producer.send(topic, order, key=str(order["id"]))
    topics = {"a name": topic, "a list": [topic], "a pattern": re.compile(re.escape(topic))}[wanted]
    with Consumer(topics, key_deserializer=bytes.decode, value_deserializer=json.loads, **keywords) as consumer:
        read = list(islice(consumer, len(ORDERS)))
        assert consumer.subscription() == {topic}
    assert [record.value for record in read] == ORDERS
    assert [record.key for record in read] == [str(order["id"]) for order in ORDERS]


def test_an_awaitable_consumer_reads_the_topics_that_it_was_made_with(keywords, topic):
    async def round_trip():
        async with AsyncProducer(bootstrap_servers=keywords["bootstrap_servers"], value_serializer=str) as producer:
            await producer.send(topic, "hello")
        async with AsyncConsumer(topic, value_deserializer=str, **keywords) as consumer:
            return (await anext(aiter(consumer))).value

    assert asyncio.run(round_trip()) == "hello"
