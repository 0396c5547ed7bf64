"""A topic, a group and parallel consumers for one test, on each broker or on the embedded one alone."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

import pytest

from seamark import Broker
from seamark.client import Admin, Consumer, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.parallel import ParallelConsumer

QUICK = {
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 200,
    "auto.offset.reset": "earliest",
    # A consumer that closes waits for the fetch under way.
    "fetch.max.wait.ms": 50,
}


class Seen:
    """What handlers were called with, from any thread."""

    def __init__(self):
        self.lock = threading.Lock()
        self.values = []
        self.by_key = defaultdict(list)

    def add(self, record):
        with self.lock:
            self.values.append(record.value)
            self.by_key[record.key].append(record.value)

    def __len__(self):
        return len(self.values)


class Topic:
    """A topic with a group of its own."""

    def __init__(self, bootstrap, name, partitions=2, broker=None):
        self.bootstrap, self.name, self.broker = bootstrap, name, broker
        self.group = f"{name}-group"
        self.partitions = [TopicPartition(name, number) for number in range(partitions)]
        self.seen = Seen()
        self.consumers = []
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions)]).raise_if_failed()

    def write(self, values, key=lambda value: None, partition=lambda value: 0, headers=()):
        with Producer(bootstrap_servers=self.bootstrap, linger_ms=5) as producer:
            sent = [
                producer.send(self.name, value, key=key(value), partition=partition(value), headers=headers)
                for value in values
            ]
            for delivery in sent:
                delivery.result(30)

    def consumer(self, handler=None, **options):
        config = {**QUICK, **options.pop("config", {}), "bootstrap.servers": self.bootstrap, "group.id": self.group}
        made = ParallelConsumer(config, [self.name], handler or self.seen.add, **options)
        self.consumers.append(made)
        return made

    def committed(self, partition=0):
        with Consumer(bootstrap_servers=self.bootstrap, group_id=self.group) as consumer:
            found = consumer.committed(self.partitions)[self.partitions[partition]]
        return None if found is None else found.offset

    def read(self, topic, count):
        """The first records of a topic."""
        found = []
        with Consumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions_for(topic))
            end = time.monotonic() + 20
            while len(found) < count:
                assert time.monotonic() < end, f"{len(found)} of {count} records in {topic}"
                found += consumer.poll(0.2)
        return found

    def close(self):
        for consumer in self.consumers:
            consumer.stop(drain=0.0)


def wait_until(is_true, seconds=30.0):
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.005)


@pytest.fixture
def until():
    return wait_until


@pytest.fixture(scope="session")
def our_broker():
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500}
    with Broker(settings=settings) as broker:
        yield broker


@pytest.fixture
def make_topic(our_broker, fresh_name):
    """Topics on the embedded broker."""
    made = []

    def make(**options):
        made.append(Topic(our_broker.bootstrap, fresh_name("parallel"), broker=our_broker, **options))
        return made[-1]

    yield make
    our_broker.faults.clear()
    for topic in made:
        topic.close()


@pytest.fixture
def topic(make_topic):
    return make_topic()


@pytest.fixture
def any_topic(kafka_like, fresh_name):
    """A topic on each broker in turn."""
    made = Topic(kafka_like.bootstrap, fresh_name("parallel"), broker=kafka_like.broker)
    yield made
    made.close()
