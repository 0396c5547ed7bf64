"""All ways of sending, mixed and from many threads: each record is stored once, in its sender's order."""

import asyncio
import random
import threading
import time
from collections import defaultdict

import pytest

from seamark import Broker
from seamark.client import AsyncProducer, Consumer, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.errors import BufferFull


@pytest.fixture
def topic(admin, fresh_name):
    name = fresh_name("mixed")
    admin.create_topics([NewTopic(name, 3, 1)]).raise_if_failed()
    return name


def stored(bootstrap, topic, count):
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(3)])
        found, deadline = [], time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            found += consumer.poll(0.5)
    return found


def send_some(producer, topic, who, count, seed):
    """Records of many kinds, as (delivery, value); values say who sent them as which."""
    rng = random.Random(seed)
    sent = []
    for number in range(count):
        value = b"%d %d %s" % (who, number, b"x" * rng.choice((0, 10, 300)))
        kind = rng.randrange(8)
        if kind == 0:
            sent.append((producer.send(topic, value, key=b"%d" % number), value))
        elif kind == 1:
            sent.append((producer.send(topic, value, partition=number % 3), value))
        elif kind == 2:
            sent.append((producer.send(topic, value, headers=[("h", b"1")]), value))
        elif kind == 3:
            sent.append((producer.send(topic, value, timestamp_ms=1_700_000_000_000 + number), value))
        else:
            sent.append((producer.send(topic, value), value))
    return sent


def test_threads_that_share_a_producer_keep_their_own_order(kafka_like, topic):
    senders, each = 4, 1500
    sent = [[] for _ in range(senders)]
    with Producer(bootstrap_servers=kafka_like.bootstrap, batch_size=4000, buffer_memory=100_000) as producer:

        def work(who):
            sent[who] = send_some(producer, topic, who, each, who)

        threads = [threading.Thread(target=work, args=(who,)) for who in range(senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    found = stored(kafka_like.bootstrap, topic, senders * each)
    places = {(record.partition, record.offset): record.value for record in found}
    assert len(places) == len(found) == senders * each
    for deliveries in sent:
        for delivery, value in deliveries:
            where = delivery.result(0)
            assert places[where.partition, where.offset] == value
    seen = defaultdict(list)
    for record in sorted(found, key=lambda record: (record.partition, record.offset)):
        who, number, _ = record.value.split(b" ")
        seen[record.partition, who].append(int(number))
    for numbers in seen.values():
        assert numbers == sorted(numbers)
    assert {partition for partition, _ in seen} == {0, 1, 2}


def test_single_and_many_and_awaited_sends_go_together(kafka_like, topic):
    async def run():
        async with AsyncProducer(bootstrap_servers=kafka_like.bootstrap, batch_size=2000, linger_ms=50) as producer:
            single = [await producer.send(topic, b"a%d" % number) for number in range(200)]
            many = await producer.send_many(topic, [b"b%d" % number for number in range(500)])
            again = [await producer.send(topic, b"c%d" % number) for number in range(200)]
            return [await each for each in single], await many, [await each for each in again]

    single, many, again = asyncio.run(asyncio.wait_for(run(), 60))
    found = stored(kafka_like.bootstrap, topic, 900)
    places = {(record.partition, record.offset): record.value for record in found}
    for name, deliveries in ((b"a", single), (b"b", many), (b"c", again)):
        for number, where in enumerate(deliveries):
            assert places[where.partition, where.offset] == name + b"%d" % number
    now = time.time() * 1000
    assert all(now - 60_000 < record.timestamp_ms < now + 1000 for record in found)


def test_a_full_buffer_is_noticed_by_every_way_of_sending():
    with Broker() as broker:
        broker.create_topic("t")
        broker.faults.delay("Produce", 20.0)
        options = {"buffer_memory": 3000, "batch_size": 1000, "max_block_ms": 200, "delivery_timeout_ms": 1000}
        more = {"request_timeout_ms": 900, "linger_ms": 0}
        with Producer(bootstrap_servers=broker.bootstrap, **options, **more) as producer:
            accepted = []
            with pytest.raises(BufferFull, match=r"buffer\.memory=3000 is used up"):
                # With a callback, so that records which time out meanwhile are nobody's surprise at the end.
                accepted.extend(producer.send("t", b"x" * 50, on_delivery=lambda *_: None) for _ in range(1000))
            assert 20 < len(accepted) < 60
            assert producer.metrics()["seamark_producer_buffered_bytes"] <= 3000
            with pytest.raises(BufferFull):
                producer.send_many("t", [b"x" * 500] * 10)
            broker.faults.clear()


def test_what_is_no_topic_is_told_to_every_way_of_sending(kafka_like):
    from seamark.errors import UsageError

    with Producer(bootstrap_servers=kafka_like.bootstrap) as producer:
        for wrong in (None, "", 7, ["t"]):
            with pytest.raises(UsageError, match="the topic of a record must be a name"):
                producer.send(wrong, b"x")
            with pytest.raises(UsageError, match="the topic of a record must be a name"):
                producer.send_many(wrong, [b"x"])
