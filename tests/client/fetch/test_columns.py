"""Columns against every broker: polled like records, and as exact ranges."""

import asyncio
import time

import pytest

from seamark.client import AsyncConsumer, ColumnReader, Consumer, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.errors import RangeGone
from seamark.errors import ClosedError, ConfigError, UsageError
from tests.support.produced import produce

COUNT = 2000


@pytest.fixture
def partition(admin, kafka_like, fresh_name):
    name = fresh_name("columns")
    # Its timestamps are of 1970: retention must not delete it under the test.
    admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "-1"})]).raise_if_failed()
    with Producer(bootstrap_servers=kafka_like.bootstrap, batch_size=1000, compression_type="lz4") as producer:
        for number in range(COUNT):
            headers = [("h", b"%d" % number)] if number % 2 else ()
            producer.send(name, b"value %d" % number, key=b"%d" % number, headers=headers, timestamp_ms=number)
    return TopicPartition(name, 0)


def test_poll_arrow_gives_what_poll_gives(kafka_like, partition):
    with Consumer(bootstrap_servers=kafka_like.bootstrap, auto_offset_reset="earliest", group_id=None) as consumer:
        consumer.assign([partition])
        rows, deadline = [], time.monotonic() + 20
        while len(rows) < COUNT and time.monotonic() < deadline:
            batch = consumer.poll_arrow(1.0, max_bytes=7000)
            if batch is not None:
                assert batch.nbytes > 0
                rows += batch.to_pylist()
        assert [row["offset"] for row in rows] == list(range(COUNT))
        assert consumer.position(partition) == COUNT
        consumer.seek_to_beginning()
        records = []
        while len(records) < COUNT and time.monotonic() < deadline:
            records += consumer.poll(1.0)
    for row, record in zip(rows, records, strict=True):
        assert (row["topic"], row["partition"], row["offset"]) == (record.topic, record.partition, record.offset)
        assert (row["key"], row["value"]) == (record.key, record.value)
        assert int(row["timestamp"].timestamp() * 1000 + 0.5) == record.timestamp_ms
        assert tuple((each["key"], each["value"]) for each in row["headers"] or ()) == record.headers


def test_poll_arrow_gives_none_when_there_is_nothing(kafka_like, partition):
    with Consumer(bootstrap_servers=kafka_like.bootstrap, auto_offset_reset="latest") as consumer:
        consumer.assign([partition])
        started = time.monotonic()
        assert consumer.poll_arrow(0.5) is None
        assert time.monotonic() - started >= 0.45


def offsets_of(batches):
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_ranges_are_exact(kafka_like, partition, isolation):
    with ColumnReader(bootstrap_servers=kafka_like.bootstrap, isolation_level=isolation) as reader:
        for start, end in ((0, COUNT), (1, 2), (17, 1999), (500, 500), (COUNT - 1, COUNT)):
            batches = list(reader.fetch_columns(partition, start, end, fetch_bytes=5000))
            assert offsets_of(batches) == list(range(start, end))
            assert all(batch.num_rows for batch in batches)


def test_a_range_has_the_columns_that_are_asked_for(kafka_like, partition):
    with ColumnReader(bootstrap_servers=kafka_like.bootstrap) as reader:
        [batch] = reader.fetch_columns(partition, 10, 12, columns=("value", "headers"), timestamp_unit="us")
        assert batch.to_pylist() == [
            {"value": b"value 10", "headers": None},
            {"value": b"value 11", "headers": [{"key": "h", "value": b"11"}]},
        ]
        with pytest.raises(ConfigError, match="colour"):
            reader.fetch_columns(partition, 0, 1, columns=("colour",))
        with pytest.raises(UsageError, match="got 5 to 4"):
            reader.fetch_columns(partition, 5, 4)


def test_a_range_that_is_gone_or_not_there_yet_is_told(kafka_like, admin, partition):
    with ColumnReader(bootstrap_servers=kafka_like.bootstrap) as reader:
        admin.delete_records({partition: 100}).raise_if_failed()
        with pytest.raises(RangeGone, match=f"offset 50 is not in the log of {partition}"):
            list(reader.fetch_columns(partition, 50, 200))
        with pytest.raises(RangeGone, match=f"offset {COUNT + 5} is not in the log"):
            list(reader.fetch_columns(partition, COUNT + 5, COUNT + 6))


def test_a_range_beyond_the_end_is_waited_for(kafka_like, partition):
    with ColumnReader(bootstrap_servers=kafka_like.bootstrap) as reader:
        batches = reader.fetch_columns(partition, COUNT - 2, COUNT + 3)
        assert offsets_of([next(batches)]) == [COUNT - 2, COUNT - 1]
        produce(kafka_like.bootstrap, partition, [b"more"] * 5)
        assert offsets_of(batches) == [COUNT, COUNT + 1, COUNT + 2]


def test_a_reader_that_stops_early_can_go_on(kafka_like, partition):
    with ColumnReader(bootstrap_servers=kafka_like.bootstrap) as reader:
        for _ in range(3):
            first = next(reader.fetch_columns(partition, 0, COUNT, fetch_bytes=1000))
            assert offsets_of([first])[0] == 0
        assert offsets_of(reader.fetch_columns(partition, 0, COUNT)) == list(range(COUNT))


def test_a_consumer_gives_exact_ranges_beside_its_own_reading(kafka_like, partition, fresh_name):
    settings = {"bootstrap_servers": kafka_like.bootstrap, "auto_offset_reset": "earliest"}
    with Consumer(**settings, group_id=fresh_name("group"), enable_auto_commit=False) as consumer:
        consumer.subscribe([partition.topic])
        first = consumer.poll(20.0, max_records=5) or consumer.poll(20.0, max_records=5)
        assert offsets_of(consumer.fetch_columns(partition, 100, 1500, fetch_bytes=5000)) == list(range(100, 1500))
        assert consumer.position(partition) == len(first) == 5, "the position is where poll has left it"
        assert consumer.assignment() == {partition}
        with pytest.raises(RangeGone, match=f"offset {COUNT + 5} is not in the log"):
            list(consumer.fetch_columns(partition, COUNT + 5, COUNT + 6))
        for start, end in ((5, 4), (-1, 4), ("a", 4), (0, None)):
            with pytest.raises(UsageError):
                consumer.fetch_columns(partition, start, end)
        with pytest.raises(UsageError):
            consumer.fetch_columns("no partition", 0, 1)
    with pytest.raises(ClosedError):
        consumer.fetch_columns(partition, 0, 1)


def test_an_async_consumer_gives_exact_ranges(kafka_like, partition):
    async def run():
        found = []
        async with AsyncConsumer(bootstrap_servers=kafka_like.bootstrap) as consumer:
            async for batch in consumer.fetch_columns(partition, 7, 1234, columns=("offset",)):
                found += batch.column("offset").to_pylist()
            with pytest.raises(RangeGone):
                async for _ in consumer.fetch_columns(partition, COUNT + 5, COUNT + 6):
                    pass
        return found

    assert asyncio.run(asyncio.wait_for(run(), 30)) == list(range(7, 1234))
