"""Producing to an embedded broker that misbehaves: every record once, in order, or an error that says why."""

import asyncio
import time

import pytest

from seamark import Broker
from seamark.client import AsyncProducer, Consumer, Producer, TopicPartition
from seamark.client.errors import BrokerError, BufferFull, DeliveryFailed, DeliveryTimedOut, OperationTimedOut

PARTITION = TopicPartition("t", 0)
QUICK = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10, "retry_backoff_max_ms": 50}


@pytest.fixture
def broker():
    with Broker() as made:
        made.create_topic("t", partitions=1)
        yield made


def stored(broker):
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([PARTITION])
        end = consumer.end_offsets([PARTITION])[PARTITION]
        found, deadline = [], time.monotonic() + 20
        while len(found) < end and time.monotonic() < deadline:
            found += [int(record.value) for record in consumer.poll(0.5)]
    return found


def produce(broker, count=400, **options):
    options = {"batch_size": 300, "linger_ms": 0, **QUICK, **options}
    with Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
        sent = [producer.send("t", b"%d" % number) for number in range(count)]
        producer.flush(60)
        return [delivery.exception(0) for delivery in sent], producer.metrics()


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_ENOUGH_REPLICAS",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_PRODUCER_ID",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
    ],
)
def test_retries_keep_the_order(broker, error):
    broker.faults.fail("Produce", error, times=5)
    errors, metrics = produce(broker)
    assert set(errors) == {None}
    assert stored(broker) == list(range(400))
    assert metrics["seamark_producer_retries_total"] >= 5


@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_connections_neither_lose_nor_double_records(broker, when):
    broker.faults.drop("Produce", when=when, times=6)
    errors, _ = produce(broker)
    assert set(errors) == {None}
    assert stored(broker) == list(range(400))


def test_without_idempotence_one_request_in_flight_keeps_the_order(broker):
    broker.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", times=5)
    errors, _ = produce(broker, enable_idempotence=False, max_in_flight_requests_per_connection=1)
    assert set(errors) == {None}
    assert stored(broker) == list(range(400))


def test_a_refusal_fails_the_batch_and_the_next_goes_on(broker):
    broker.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", times=1)
    with Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
        error = producer.send("t", b"1").exception(10)
        assert isinstance(error, BrokerError)
        assert "t-0" in str(error)
        assert "TOPIC_AUTHORIZATION_FAILED" in str(error)
        assert producer.send("t", b"2").result(10).offset == 0
        assert producer.send("t", b"3").result(10).offset == 1
    assert stored(broker) == [2, 3]


def test_a_producer_that_may_not_have_an_id_is_told(broker):
    broker.faults.fail("InitProducerId", "CLUSTER_AUTHORIZATION_FAILED", times=1)
    with Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
        error = producer.send("t", b"1").exception(10)
        assert isinstance(error, BrokerError)
        assert "InitProducerId" in str(error)
        assert producer.send("t", b"2").result(10).offset == 0


def test_delivery_has_an_end(broker):
    broker.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", times=None)
    options = {"delivery_timeout_ms": 1000, "request_timeout_ms": 900, "linger_ms": 0}
    with Producer(bootstrap_servers=broker.bootstrap, **QUICK, **options) as producer:
        started = time.monotonic()
        delivery = producer.send("t", b"1")
        with pytest.raises(DeliveryTimedOut, match=r"t-0 not acknowledged within 1 s.*NOT_ENOUGH_REPLICAS"):
            delivery.result(10)
        assert 0.9 < time.monotonic() - started < 8
        broker.faults.clear()
        assert producer.send("t", b"2").result(10).offset == 0, "usable after it"
    assert stored(broker) == [2]


def test_a_broker_that_does_not_answer_does_not_hold_up_the_caller_for_ever(broker):
    broker.faults.delay("Produce", 30.0)
    options = {"delivery_timeout_ms": 1000, "request_timeout_ms": 500, "linger_ms": 0, "max_block_ms": 500}
    with Producer(bootstrap_servers=broker.bootstrap, buffer_memory=2000, **QUICK, **options) as producer:
        first = producer.send("t", b"1" * 1500)
        started = time.monotonic()
        with pytest.raises(BufferFull, match=r"within 0.5 s: buffer.memory=2000 is used up"):
            producer.send("t", b"2" * 1000)
        assert 0.4 < time.monotonic() - started < 8
        assert isinstance(first.exception(10), DeliveryTimedOut)
        broker.faults.clear()


def test_closing_has_an_end_too(broker):
    broker.faults.delay("Produce", 30.0)
    producer = Producer(bootstrap_servers=broker.bootstrap)
    delivery = producer.send("t", b"1")
    started = time.monotonic()
    with pytest.raises(DeliveryFailed, match="1 of 1 record was not delivered"):
        producer.close(timeout=0.5)
    assert time.monotonic() - started < 8
    with pytest.raises(OperationTimedOut, match="closing the producer"):
        delivery.result(1)


def test_awaiting_producers_wait_for_room_without_blocking_their_loop(broker):
    async def work():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticker = asyncio.create_task(tick())
        broker.faults.delay("Produce", 0.1)
        async with AsyncProducer(bootstrap_servers=broker.bootstrap, buffer_memory=3000, batch_size=1000) as producer:
            for number in range(100):
                await producer.send("t", b"%03d" % number + b" " * 100)
            await producer.flush(30)
        ticker.cancel()
        return ticks

    assert asyncio.run(work()) > 10
    broker.faults.clear()
    assert stored(broker) == list(range(100))


def test_a_broker_that_restarts_gets_everything_once(broker):
    with Producer(bootstrap_servers=broker.bootstrap, batch_size=300, **QUICK) as producer:
        sent = [producer.send("t", b"%d" % number) for number in range(300)]
        broker.nodes[0].stop()
        sent += [producer.send("t", b"%d" % number) for number in range(300, 600)]
        time.sleep(0.3)
        broker.nodes[0].start()
        producer.flush(60)
        assert {delivery.exception(0) for delivery in sent} == {None}
    assert stored(broker) == list(range(600))
