"""What counts as consumed: what the caller was given and came back for, in every way of reading and of ending."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.client import AsyncConsumer, Consumer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.errors import DeserializationFailed
from tests.soak.client_parts import iterating
from tests.support.consumers import QUICK
from tests.support.produced import produce
from tests.support.waiting import eventually

COUNT = 10


class HandlerFailed(Exception):
    """What the user's code raises."""


@pytest.fixture
def group(fresh_name):
    return fresh_name("group")


@pytest.fixture
def topic(admin, fresh_name, kafka_like):
    """Two partitions; the first has ten records, their values being their offsets."""
    name = fresh_name("topic")
    admin.create_topics([NewTopic(name, 2, 1)]).raise_if_failed()
    produce(kafka_like.bootstrap, TopicPartition(name, 0), [b"%d" % n for n in range(COUNT)])
    return name


@pytest.fixture
def partition(topic):
    return TopicPartition(topic, 0)


@pytest.fixture
def config(kafka_like, group):
    # Auto-commit is on; its interval is so long that only closing and rebalances commit, unless a test says otherwise.
    return {
        **QUICK,
        "bootstrap.servers": kafka_like.bootstrap,
        "group.id": group,
        "auto.commit.interval.ms": 600_000,
    }


@pytest.fixture
def committed(admin, group, partition):
    def read():
        found = admin.list_group_offsets([group])[group].get(partition)
        return None if found is None else found.offset

    return read


def fail():
    raise HandlerFailed


def fail_at(offset, record):
    if record.offset == offset:
        raise HandlerFailed(offset)


# -- iterating


def test_a_handler_that_fails_leaves_its_record_uncommitted(config, topic, committed):
    with contextlib.suppress(HandlerFailed), Consumer(config) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            fail_at(3, record)
    assert committed() == 3


def test_a_commit_in_the_loop_covers_the_record_at_hand_and_nothing_behind_it(config, topic, committed, partition):
    seen = []
    config["enable.auto.commit"] = False
    with contextlib.suppress(HandlerFailed), Consumer(config) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            fail_at(3, record)
            assert consumer.position(partition) == record.offset + 1
            consumer.commit()
            seen.append(consumer.committed([partition])[partition].offset)
    assert seen == [1, 2, 3]
    assert committed() == 3


def test_a_commit_that_is_not_waited_for_covers_the_same(config, topic, committed):
    config["enable.auto.commit"] = False
    with contextlib.suppress(HandlerFailed), Consumer(config) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            fail_at(3, record)
            consumer.commit_async()
    assert committed() == 3


@pytest.mark.parametrize("style", ["auto", "commit", "commit_async"])
def test_an_async_handler_that_fails_leaves_its_record_uncommitted(config, topic, committed, style):
    config["enable.auto.commit"] = style == "auto"

    async def read():
        async with AsyncConsumer(config) as consumer:
            await consumer.subscribe([topic])
            async for record in consumer:
                fail_at(3, record)
                if style != "auto":
                    await getattr(consumer, style)()

    with pytest.raises(HandlerFailed):
        asyncio.run(read())
    assert committed() == 3


def test_a_cancelled_handler_leaves_its_record_uncommitted(config, topic, committed):
    async def read(at_hand):
        async with AsyncConsumer(config) as consumer:
            await consumer.subscribe([topic])
            async for record in consumer:
                if record.offset == 4:
                    at_hand.set()
                    await asyncio.sleep(600)

    async def cancel():
        at_hand = asyncio.Event()
        task = asyncio.create_task(read(at_hand))
        await at_hand.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert committed() == 4


def test_leaving_a_loop_early_leaves_the_record_at_hand_uncommitted_and_loses_none(config, topic, committed):
    with Consumer(config) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            if record.offset == 3:
                break
    assert committed() == 3
    with Consumer(config) as consumer:
        consumer.subscribe([topic])
        again = []
        for record in consumer:
            again.append(record.offset)
            if len(again) == COUNT - 3:
                break
    assert again == list(range(3, COUNT))


def test_a_broken_off_loop_is_continued_by_each_way_of_reading(config, topic, committed):
    with Consumer(config) as consumer:
        consumer.subscribe([topic])
        got = [next(iter(consumer)).offset for _ in range(2)]
        for record in consumer:
            got.append(record.offset)
            break
        got += [record.offset for record in polled(consumer, 2)]
        first, second = iter(consumer), iter(consumer)
        got += [next(first).offset, next(second).offset, next(first).offset]
        assert got == list(range(8))
        batch = consumer.poll_arrow(20.0)
        assert batch.column("offset").to_pylist() == [8, 9]
    assert committed() == COUNT, "closing in the ordinary way counts the last batch"


def polled(consumer, most):
    records = []
    while not records:
        records = consumer.poll(20.0, max_records=most)
    return records


def test_an_automatic_commit_between_records_counts_what_was_come_back_for(config, topic, committed):
    config["auto.commit.interval.ms"] = 0
    config["max.poll.records"] = 1
    with Consumer(config) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            if record.offset == 5:
                # Before the consumer is closed: what only the interval commits.
                eventually(lambda: committed() == 5, "the commit of the interval")
                break


def test_a_seek_in_the_loop_drops_what_was_fetched_behind_it(config, topic, partition, committed):
    got = []
    with Consumer(config) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            got.append(record.offset)
            if record.offset == 2 and len(got) == 3:
                consumer.seek(partition, 1)
            if record.offset == 3:
                consumer.seek(partition, 8)
            if len(got) == 8:
                break
    assert got == [0, 1, 2, 1, 2, 3, 8, 9]
    assert committed() == 9


def test_a_partition_that_is_paused_in_the_loop_goes_on_where_it_stood(config, topic, partition, kafka_like):
    other = TopicPartition(topic, 1)
    with Consumer(config) as consumer:
        consumer.assign([partition])
        records = iter(consumer)
        assert [next(records).offset for _ in range(3)] == [0, 1, 2]
        consumer.pause([partition])
        assert consumer.poll(0.1) == []
        consumer.assign([partition, other])
        produce(kafka_like.bootstrap, other, [b"x"])
        assert next(records).topic_partition == other
        consumer.resume([partition])
        assert [next(records).offset for _ in range(7)] == list(range(3, COUNT))


def test_an_assignment_in_the_loop_ends_what_is_not_assigned_any_more(config, topic, partition, kafka_like):
    other = TopicPartition(topic, 1)
    produce(kafka_like.bootstrap, other, [b"x", b"y"])
    with Consumer(config) as consumer:
        consumer.assign([partition])
        records = iter(consumer)
        assert [next(records).offset for _ in range(3)] == [0, 1, 2]
        consumer.assign([other])
        assert [next(records).topic_partition for _ in range(2)] == [other, other]
        consumer.unsubscribe()
        consumer.assign([partition])
        assert next(records).topic_partition == partition


def test_what_was_read_of_a_partition_that_is_given_up_is_committed_up_to_the_record_at_hand(
    config, topic, partition, committed
):
    with Consumer(config) as consumer:
        consumer.assign([partition])
        for record in consumer:
            if record.offset == 3:
                consumer.assign([TopicPartition(topic, 1)])
                break
    assert committed() == 3


def test_a_rebalance_between_records_commits_what_was_come_back_for(config, topic, partition, committed):
    config["max.poll.records"] = 1
    with Consumer(config) as consumer:
        gone = []
        consumer.subscribe([topic], on_revoked=gone.extend)
        records = iter(consumer)
        assert [next(records).offset for _ in range(4)] == [0, 1, 2, 3]
        consumer.subscribe(["another-" + topic], on_revoked=gone.extend)
        while partition not in gone:
            consumer.poll(0.1)
        assert committed() == 4


def test_a_record_that_cannot_be_deserialized_is_where_the_position_stands(config, topic, partition, committed):
    def read(raw):
        if raw == b"4":
            raise ValueError("not four")
        return int(raw)

    with Consumer(config, value=read) as consumer:
        consumer.subscribe([topic])
        got = []
        with pytest.raises(DeserializationFailed, match="offset 4"):
            got.extend(record.value for record in consumer)
        assert got == [0, 1, 2, 3]
        assert consumer.position(partition) == 4
        with pytest.raises(DeserializationFailed, match="offset 4"):
            next(iter(consumer))
        consumer.seek(partition, 5)
        assert next(iter(consumer)).value == 5
    assert committed() == 5


def test_a_loop_over_a_consumer_that_its_body_closes_ends(config, topic, committed):
    consumer = Consumer(config)
    consumer.subscribe([topic])
    for record in consumer:
        if record.offset == 2:
            consumer.close()
    assert record.offset == 2
    assert committed() == 2


# -- polling


@pytest.mark.parametrize("way", ["poll", "poll_arrow"])
def test_a_batch_whose_handler_fails_is_not_committed(config, topic, committed, way):
    config["max.partition.fetch.bytes"] = 1
    with contextlib.suppress(HandlerFailed), Consumer(config) as consumer:
        consumer.subscribe([topic])
        while True:
            batch = consumer.poll(1.0, max_records=3) if way == "poll" else consumer.poll_arrow(1.0)
            if batch is not None and len(batch):
                first = batch[0].offset if way == "poll" else batch.column("offset")[0].as_py()
                if way == "poll_arrow" or first == 3:
                    raise HandlerFailed
    assert committed() in ((3,) if way == "poll" else (0, None))


@pytest.mark.parametrize("ending", ["finally", "except", "with", "normal"])
def test_how_a_consumer_is_closed_decides_whether_the_last_batch_counts(config, topic, committed, ending):
    consumer = Consumer(config)
    consumer.subscribe([topic])
    polled(consumer, 4)
    polled(consumer, 3)
    if ending == "finally":
        with contextlib.suppress(HandlerFailed):
            try:
                raise HandlerFailed
            finally:
                consumer.close()
    elif ending == "except":
        try:
            fail()
        except HandlerFailed:
            consumer.close()
    elif ending == "with":
        with contextlib.suppress(HandlerFailed), consumer:
            raise HandlerFailed
    else:
        with contextlib.suppress(HandlerFailed):
            raise HandlerFailed
        consumer.close()
    assert committed() == (7 if ending == "normal" else 4)


@pytest.mark.parametrize("ending", ["finally", "wait_for", "with", "cancelled", "normal"])
def test_how_an_async_consumer_is_closed_decides_whether_the_last_batch_counts(config, topic, committed, ending):
    async def polled_async(consumer, most):
        records = []
        while not records:
            records = await consumer.poll(20.0, max_records=most)

    async def read():
        consumer = AsyncConsumer(config)
        await consumer.subscribe([topic])
        await polled_async(consumer, 4)
        await polled_async(consumer, 3)
        if ending == "normal":
            await consumer.close()
        elif ending == "with":
            async with consumer:
                raise HandlerFailed
        elif ending == "cancelled":
            async with consumer:
                asyncio.current_task().cancel()
                await asyncio.sleep(600)
        else:
            try:
                raise HandlerFailed
            finally:
                closing = consumer.close()
                await (asyncio.wait_for(closing, 60) if ending == "wait_for" else closing)

    with contextlib.suppress(HandlerFailed, asyncio.CancelledError):
        asyncio.run(read())
    assert committed() == (7 if ending == "normal" else 4)


@pytest.mark.parametrize("commit", [True, False])
def test_a_close_on_another_thread_can_be_told_to_commit_nothing(config, topic, committed, commit):
    consumer = Consumer(config)
    consumer.subscribe([topic])
    polled(consumer, 4)
    with contextlib.suppress(HandlerFailed), ThreadPoolExecutor(1) as other_thread:
        try:
            raise HandlerFailed
        finally:
            other_thread.submit(consumer.close, commit=commit).result(60)
    assert committed() == (4 if commit else None)


@pytest.mark.parametrize("commit", [True, False])
def test_a_close_in_another_task_can_be_told_to_commit_nothing(config, topic, committed, commit):
    async def read():
        consumer = AsyncConsumer(config)
        await consumer.subscribe([topic])
        while not await consumer.poll(20.0, max_records=4):
            pass

        async def close():
            await consumer.close(commit=commit)

        try:
            raise HandlerFailed
        finally:
            await asyncio.create_task(close())

    with contextlib.suppress(HandlerFailed):
        asyncio.run(read())
    assert committed() == (4 if commit else None)


def test_an_explicit_commit_counts_a_batch_whatever_happens_then(config, topic, committed):
    with contextlib.suppress(HandlerFailed), Consumer(config) as consumer:
        consumer.subscribe([topic])
        polled(consumer, 4)
        consumer.commit()
        raise HandlerFailed
    assert committed() == 4


# -- being killed


def test_programs_that_iterate_and_are_killed_commit_nothing_that_they_did_not_process():
    """A sample of ``make soak NAME=client``."""
    result = iterating.run(records=60, kills=1, seed=1)
    assert result["failures"] == []
    assert result["processed"] == 4 * 2 * 60
