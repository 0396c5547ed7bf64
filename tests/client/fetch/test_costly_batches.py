"""A topic with batches that would cost their readers too much: every reader says so, and gets past them."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from seamark.client import Admin, AsyncConsumer, ColumnReader, Consumer, TopicPartition
from seamark.client.admin.record_times import LogPlace
from seamark.client.errors import CorruptRecords, RecordsTooLarge
from seamark.parallel import ParallelConsumer
from seamark.parallel.observe.health import HealthServer
from tests.support.costly_batches import header_bomb, record, record_bomb, sealed
from tests.support.scripted_broker import ScriptedBroker

BAD, GOOD = TopicPartition("t", 0), TopicPartition("t", 1)
# Two records, the one that cannot be read, two more.
LOG = record_bomb(2) + header_bomb(1_000_000, base_offset=2) + record_bomb(2, base_offset=3)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.logs = {0: LOG, 1: record_bomb(4)}
        broker.ends = {0: 5, 1: 4}
        yield broker


def settings(broker: ScriptedBroker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}


def check(error: RecordsTooLarge) -> None:
    assert (error.partition, error.offset, error.setting) == (BAD, 2, "record.max.headers")
    assert "the record has 1000000 headers, at most 10000 are allowed" in str(error)


def test_a_consumer_reads_before_it_beside_it_and_after_a_seek_behind_it(broker: ScriptedBroker) -> None:
    found: list[tuple[int, int]] = []
    errors: list[RecordsTooLarge] = []
    with Consumer(settings(broker)) as consumer:
        consumer.assign([BAD, GOOD])

        def poll_until(count: int) -> None:
            while len(found) < count or len(errors) < 2:
                try:
                    found.extend((each.partition, each.offset) for each in consumer.poll(5.0))
                except RecordsTooLarge as error:
                    errors.append(error)

        poll_until(6)
        assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3)]
        for error in errors:
            check(error)
        assert consumer.position(BAD) == 2, "it stays there until a seek"
        consumer.seek(BAD, 3)
        poll_until(8)
        assert found[6:] == [(0, 3), (0, 4)]


def test_columns_are_read_before_it_and_after_a_seek_behind_it(broker: ScriptedBroker) -> None:
    with Consumer(settings(broker)) as consumer:
        consumer.assign([BAD])
        batch = consumer.poll_arrow(5.0)
        assert batch is not None
        assert batch.column("offset").to_pylist() == [0, 1]
        with pytest.raises(RecordsTooLarge) as caught:
            consumer.poll_arrow(5.0)
        check(caught.value)
        consumer.seek(BAD, 3)
        batch = consumer.poll_arrow(5.0)
        assert batch is not None
        assert batch.column("offset").to_pylist() == [3, 4]


def test_an_exact_range_names_the_batch_and_not_where_the_answer_began(broker: ScriptedBroker) -> None:
    with ColumnReader(settings(broker)) as reader:
        batches = reader.fetch_columns(BAD, 0, 5)
        assert [offset for _ in range(1) for offset in next(batches).column("offset").to_pylist()] == [0, 1]
        with pytest.raises(RecordsTooLarge) as caught:
            next(batches)
        check(caught.value)
        behind = reader.fetch_columns(BAD, 3, 5)
        assert [offset for batch in behind for offset in batch.column("offset").to_pylist()] == [3, 4]


@pytest.mark.parametrize(
    "log",
    [
        record_bomb(1) + sealed(record(), base_offset=2**50),
        record_bomb(1) + sealed(record(), base_offset=2**63 - 1),
        record_bomb(1) + sealed(record(), base_offset=0) + record_bomb(1, base_offset=4),
    ],
    ids=["beyond the log", "the last of all", "below the one before"],
)
def test_an_exact_range_refuses_a_batch_that_cannot_be_where_it_says(broker: ScriptedBroker, log: bytes) -> None:
    broker.logs[0] = log
    with ColumnReader(settings(broker)) as reader:
        batches = reader.fetch_columns(BAD, 0, 5)
        assert next(batches).column("offset").to_pylist() == [0]
        with pytest.raises(CorruptRecords, match=r"t-0 at offset 1 .*the batch claims to"):
            next(batches)


def test_an_async_consumer_and_the_times_of_records_say_the_same(broker: ScriptedBroker) -> None:
    async def read() -> None:
        async with AsyncConsumer(settings(broker)) as consumer:
            await consumer.assign([BAD])
            assert [each.offset for each in await consumer.poll(5.0)] == [0, 1]
            with pytest.raises(RecordsTooLarge) as caught:
                await consumer.poll(5.0)
            check(caught.value)

    asyncio.run(asyncio.wait_for(read(), 60))
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        place = LogPlace(BAD, 2)
        error = admin.record_times([place]).errors[place]
        assert isinstance(error, RecordsTooLarge)


def test_the_command_ends_with_the_sentence(broker: ScriptedBroker) -> None:
    command = [sys.executable, "-m", "seamark", "consume", "t", "--partition", "0", "--bootstrap", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "the records of t-0 at offset 2 cannot be read: their batch exceeds record.max.headers" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.count("\n") == 2, "what stands before it was written"


def test_a_parallel_consumer_sets_the_partition_aside_says_so_and_goes_on(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[tuple[int, int]] = []
    config = {**settings(broker), "group.id": "g"}
    with (
        caplog.at_level(logging.ERROR, "seamark.parallel"),
        ParallelConsumer(config, ["t"], lambda each: done.append((each.partition, each.offset))) as consumer,
    ):
        assert consumer.wait_until(lambda: len(done) >= 6, 60)
        broker.logs[1] += record_bomb(2, base_offset=4)
        broker.ends[1] = 6
        assert consumer.wait_until(lambda: len(done) >= 8, 60), "the other partition goes on"
        with HealthServer(consumer) as health:
            pages = []
            for path in ("/healthz", "/metrics"):
                with urllib.request.urlopen(f"http://{health.address}{path}", timeout=30) as answer:
                    pages.append(answer.read().decode())
    assert sorted(done) == [(0, 0), (0, 1), *((1, offset) for offset in range(6))]
    [line] = [each.getMessage() for each in caplog.records if "t-0" in each.getMessage()]
    assert "t-0 is not read beyond offset 2" in line
    assert "record.max.headers" in line
    assert "commit offset 3 for it" in line
    assert pages[0] == f"degraded\n{line}\n"
    assert 'seamark_parallel_set_aside_partitions{group="g"} 1\n' in pages[1]
    assert 'seamark_parallel_set_aside_offset{group="g",topic="t",partition="0"} 2\n' in pages[1]
