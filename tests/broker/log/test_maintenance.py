"""Background work on the broker's clock: retention, compaction in steps, producers that are forgotten."""

import pytest

from seamark import Broker
from seamark.errors import ConfigError
from tests.support.broker_driver import Client, batch_of

DAY = 86_400


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def client(broker):
    with Client(broker.bootstrap) as connected:
        yield connected


def now_ms(broker):
    return broker._server.clock.now_ms()


def test_old_records_go_when_their_time_is_over(broker, client):
    broker.create_topic("aging", config={"retention.ms": 3_600_000})
    client.produce("aging", batch_of(b"a", timestamp_ms=now_ms(broker)))
    broker.advance(1800)
    assert client.list_offset("aging", -2).offset == 0
    broker.advance(2200)
    assert client.list_offset("aging", -2).offset == 1
    assert client.produce("aging", batch_of(b"b", timestamp_ms=now_ms(broker))).base_offset == 1


def test_too_many_bytes_go_by_whole_segments(broker, client):
    broker.create_topic("bounded", config={"retention.bytes": 3000, "segment.bytes": 1000})
    for _ in range(10):
        client.produce("bounded", batch_of(b"x" * 800, timestamp_ms=now_ms(broker)))
    broker.advance(301)
    assert client.list_offset("bounded", -2).offset == 6


def test_a_compacted_topic_keeps_the_last_value_of_each_key(broker, client):
    broker.create_topic(
        "latest", config={"cleanup.policy": "compact", "segment.bytes": 1000, "min.cleanable.dirty.ratio": 0.01}
    )
    for number in range(100):
        client.produce("latest", batch_of(b"%d" % number, key=b"k%d" % (number % 5), timestamp_ms=now_ms(broker)))
    partition = broker._server.cluster.partition("latest", 0)
    before = partition.log.size
    for _ in range(20):
        broker.advance(16)
    assert partition.log.size < before / 2
    assert client.list_offset("latest", -1).offset == 100
    found, offset = {}, 0
    while offset < 100:
        from seamark.wire.records import read_records

        for record in read_records(client.fetch("latest", offset).records):
            found[record.key] = record.value
            offset = record.offset + 1
    assert found == {b"k%d" % key: b"%d" % (95 + key) for key in range(5)}


def test_a_compacted_topic_is_not_emptied_by_age(broker, client):
    broker.create_topic("forever", config={"cleanup.policy": "compact"})
    client.produce("forever", batch_of(b"a", timestamp_ms=now_ms(broker)))
    broker.advance(30 * DAY)
    assert client.values("forever") == [b"a"]


def test_a_producer_that_is_silent_for_a_day_is_forgotten(broker, client):
    broker.create_topic("quiet")
    batch = batch_of(b"a", producer_id=1, producer_epoch=0, base_sequence=0, timestamp_ms=now_ms(broker))
    client.produce("quiet", batch)
    partition = broker._server.cluster.partition("quiet", 0)
    broker.advance(DAY - 700)
    assert len(partition.producers) == 1
    broker.advance(1400)
    assert len(partition.producers) == 0


def test_time_goes_forward_only(broker):
    with pytest.raises(ConfigError):
        broker.advance(-1)
