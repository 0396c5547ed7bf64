"""Fetching from an embedded broker that misbehaves: no record is lost or given twice."""

import time

import pytest

from seamark import Broker
from seamark.client import Consumer, Producer, TopicPartition
from seamark.client.errors import BrokerError

COUNT = 2000


@pytest.fixture
def broker():
    with Broker() as made:
        made.create_topic("t", partitions=2)
        with Producer(bootstrap_servers=made.bootstrap, batch_size=1000) as producer:
            for partition in (0, 1):
                producer.send_many("t", [b"%d" % number for number in range(COUNT)], partition=partition)
        yield made


@pytest.fixture
def consumer(broker):
    options = {"max_partition_fetch_bytes": 3000, "retry_backoff_ms": 20, "reconnect_backoff_ms": 20}
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", **options) as made:
        made.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
        yield made


def read_all(consumer, seconds=30.0):
    found, deadline = {0: [], 1: []}, time.monotonic() + seconds
    while sum(map(len, found.values())) < 2 * COUNT and time.monotonic() < deadline:
        for record in consumer.poll(0.2):
            found[record.partition].append(record.offset)
    return found


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_SERVER_ERROR",
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
        "KAFKA_STORAGE_ERROR",
    ],
)
def test_errors_that_pass_cost_nothing_but_time(broker, consumer, error):  # covers: K11, K16
    consumer.poll(2.0)
    broker.faults.fail("Fetch", error, times=3)
    time.sleep(0.1)
    consumer.seek_to_beginning()
    assert read_all(consumer) == {0: list(range(COUNT)), 1: list(range(COUNT))}


@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_connections_cost_nothing_but_time(broker, consumer, when):  # covers: K14, K15
    broker.faults.drop("Fetch", when=when, times=4)
    assert read_all(consumer) == {0: list(range(COUNT)), 1: list(range(COUNT))}
    assert consumer.metrics()["seamark_consumer_failed_fetches_total"] >= 4


def test_a_refusal_is_raised_and_reading_goes_on_when_it_is_lifted(broker, consumer):
    fault = broker.faults.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        consumer.poll(10.0)
    fault.remove()
    found, deadline = {0: [], 1: []}, time.monotonic() + 30
    while sum(map(len, found.values())) < 2 * COUNT and time.monotonic() < deadline:
        try:
            records = consumer.poll(0.2)
        except BrokerError:
            continue
        for record in records:
            found[record.partition].append(record.offset)
    assert found == {0: list(range(COUNT)), 1: list(range(COUNT))}


def test_a_broker_that_restarts_is_read_on(broker, consumer):
    assert consumer.poll(5.0)
    consumer.seek_to_beginning()
    broker.nodes[0].stop()
    time.sleep(0.3)
    broker.nodes[0].start()
    assert read_all(consumer) == {0: list(range(COUNT)), 1: list(range(COUNT))}
