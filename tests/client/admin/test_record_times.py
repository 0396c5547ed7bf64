"""The time of the first record at or beyond an offset, on each broker: its own, whatever those of its neighbours."""

import asyncio
import random
import time

import pytest

from seamark.client import AsyncAdmin, TopicPartition
from seamark.client.admin.record_times import LogPlace
from seamark.client.admin.types import NewTopic
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.produced import produce


@pytest.fixture
def partition(admin, fresh_name):
    name = fresh_name("topic")
    admin.create_topics([NewTopic(name, 1, 1)]).raise_if_failed()
    return TopicPartition(name, 0)


def test_times_in_any_order_are_told_record_by_record_and_none_at_the_end(kafka_like, admin, partition):
    rng = random.Random(7)
    now_ms = int(time.time() * 1000)
    times = [now_ms - rng.randrange(86_400_000) for _ in range(60)]
    for start in range(0, 60, 20):
        produce(kafka_like.bootstrap, partition, [b"x"] * 20, times[start : start + 20])
    places = [LogPlace(partition, offset) for offset in range(61)]
    found = admin.record_times(places)
    assert [found[place] for place in places] == [*times, None]

    async def asked():
        async with AsyncAdmin(bootstrap_servers=kafka_like.bootstrap) as other:
            return await other.record_times(places[:3])

    assert list(asyncio.run(asked()).values()) == times[:3]


def test_the_first_offset_of_a_time_is_the_lowest_one_whatever_the_order(kafka_like, admin, partition):
    """What the estimate of an age rests on, where records are not read."""
    rng = random.Random(11)
    now_ms = int(time.time() * 1000)
    times = [now_ms - rng.randrange(86_400_000) for _ in range(60)]
    for start in range(0, 60, 20):
        produce(kafka_like.bootstrap, partition, [b"x"] * 20, times[start : start + 20])
    for asked in (*rng.sample(times, 15), max(times) + 1, 0):
        expected = next((offset for offset, at_ms in enumerate(times) if at_ms >= asked), -1)
        answer = admin.list_offsets({partition: asked})[partition]
        assert (answer.offset, answer.timestamp_ms) == (expected, times[expected] if expected >= 0 else -1)


def test_a_deleted_offset_and_a_missing_partition_have_an_error_and_hold_up_no_other(kafka_like, admin, partition):
    now_ms = int(time.time() * 1000)
    produce(kafka_like.bootstrap, partition, [b"x"] * 5, now_ms)
    admin.delete_records({partition: 2}).raise_if_failed()
    there, deleted = LogPlace(partition, 3), LogPlace(partition, 1)
    missing = LogPlace(TopicPartition(partition.topic, 9), 0)
    found = admin.record_times([there, deleted, missing], timeout=5)
    assert dict(found) == {there: now_ms + 3}
    assert set(found.errors) == {deleted, missing}
    assert found.errors[deleted].code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transaction_markers_are_no_records(kafka_like, admin, partition, fresh_name):
    if kafka_like.is_ours:
        pytest.skip("the embedded broker has no transactions")
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka_like.bootstrap, "transactional.id": fresh_name("writer")})
    producer.init_transactions(30)
    now_ms = int(time.time() * 1000)
    for at_ms in (now_ms - 5000, now_ms - 9000):
        producer.begin_transaction()
        producer.produce(partition.topic, b"x", partition=0, timestamp=at_ms)
        producer.commit_transaction(30)
    # Records at 0 and 2, markers at 1 and 3.
    places = [LogPlace(partition, offset) for offset in range(4)]
    found = admin.record_times(places)
    assert [found[place] for place in places] == [now_ms - 5000, now_ms - 9000, now_ms - 9000, None]
