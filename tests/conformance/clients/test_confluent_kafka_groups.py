"""confluent-kafka runs a group's whole story against our broker; skipped where it is not installed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from seamark.broker import Broker

confluent_kafka = pytest.importorskip("confluent_kafka")
admin_module = pytest.importorskip("confluent_kafka.admin")

PARTITIONS = 6
RECORDS = 60


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
    with Broker(settings=settings) as running:
        running.create_topic("orders", PARTITIONS)
        producer = confluent_kafka.Producer({"bootstrap.servers": running.bootstrap})
        for number in range(RECORDS):
            producer.produce("orders", b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(20) == 0
        yield running


def consumer(broker: Broker, group: str, **more: object) -> Any:
    options: dict[str, object] = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 30_000,
        "heartbeat.interval.ms": 200,
    }
    made = confluent_kafka.Consumer(options | {key.replace("_", "."): value for key, value in more.items()})
    made.subscribe(["orders"])
    return made


def settle(members: list[Any], seconds: float = 30.0) -> set[bytes]:
    """Poll until everybody has partitions and each partition one owner; returns what was read meanwhile."""
    values: set[bytes] = set()
    deadline = time.monotonic() + seconds
    while True:
        owned: list[list[int]] = []
        for member in members:
            message = member.poll(0.05)
            if message is not None and message.error() is None:
                values.add(message.value())
            owned.append([each.partition for each in member.assignment()])
        if all(owned) and sorted(each for some in owned for each in some) == list(range(PARTITIONS)):
            return values
        assert time.monotonic() < deadline, f"not shared out: {owned}"


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_shares_loses_members_and_resumes(broker: Broker, strategy: str) -> None:
    members = [consumer(broker, "story", partition_assignment_strategy=strategy) for _ in range(3)]
    values = settle(members)
    members.pop().close()
    values |= settle(members)
    deadline = time.monotonic() + 20
    while len(values) < RECORDS and time.monotonic() < deadline:
        values |= settle(members)
    assert len(values) == RECORDS
    partition = confluent_kafka.TopicPartition("orders", 0, 4, "so far")
    members[0].commit(offsets=[partition], asynchronous=False)
    for member in members:
        member.close()
    back = consumer(broker, "story", partition_assignment_strategy=strategy)
    [stored] = back.committed([confluent_kafka.TopicPartition("orders", 0)], 10)
    assert (stored.offset, stored.metadata) == (4, "so far")
    back.close()


def test_a_static_member_takes_up_its_place_again(broker: Broker) -> None:
    one, two = (consumer(broker, "static", group_instance_id=name) for name in ("one", "two"))
    settle([one, two])
    before = two.assignment()
    two.close()
    two = consumer(broker, "static", group_instance_id="two")
    settle([one, two])
    assert two.assignment() == before
    one.close()
    two.close()


def test_an_administrator_describes_and_deletes_groups(broker: Broker) -> None:
    member = consumer(broker, "seen")
    settle([member])
    admin = admin_module.AdminClient({"bootstrap.servers": broker.bootstrap})
    assert "seen" in {each.group_id for each in admin.list_consumer_groups().result(10).valid}
    described = admin.describe_consumer_groups(["seen"])["seen"].result(10)
    assert (described.state.name, len(described.members)) == ("STABLE", 1)
    member.close()
    admin.delete_consumer_groups(["seen"])["seen"].result(10)
    assert "seen" not in {each.group_id for each in admin.list_consumer_groups().result(10).valid}


def test_what_is_not_served_fails_at_once(broker: Broker) -> None:
    newer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "newer", "group.protocol": "consumer"}
    )
    newer.subscribe(["orders"])
    deadline = time.monotonic() + 15
    while (message := newer.poll(0.2)) is None or message.error() is None:
        assert time.monotonic() < deadline
    assert "not supported" in message.error().str()
    newer.close()
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "tx"})
    with pytest.raises(confluent_kafka.KafkaException, match="does not support transactions"):
        producer.init_transactions(15)
