"""Records are run concurrently, in order where order is promised, and what is unfinished runs again after a restart."""

import asyncio
import inspect
import logging
import threading
import time
from collections import Counter

import pytest

from seamark.errors import ConfigError, UsageError
from seamark.parallel import (
    AsyncParallelConsumer,
    Batch,
    Commit,
    ConsumerStopped,
    Order,
    ParallelConsumer,
    Retry,
)
from seamark.parallel.observe.status import State

KEYS = 7


def key_of(value):
    return b"key-%d" % (int(value) % KEYS)


def numbers(count):
    return [b"%d" % number for number in range(count)]


def spread(value):
    """All records of a key in one partition."""
    return int(value) % KEYS % 2


def assert_key_order(seen, count):
    assert sorted(map(int, seen.values)) == list(range(count))
    for key, values in seen.by_key.items():
        assert [int(value) for value in values] == sorted(map(int, values)), key


def handlers(seen):
    async def run_async(record):
        await asyncio.sleep(0.0005 * (int(record.value) % 3))
        seen.add(record)

    def run_plain(record):
        time.sleep(0.0005 * (int(record.value) % 3))
        seen.add(record)

    return {"async": run_async, "threads": run_plain, "loop": seen.add}


# covers: H2, H12, H13, I3
@pytest.mark.parametrize("client", ["seamark", "confluent"])
@pytest.mark.parametrize("kind", ["async", "threads"])
def test_records_of_a_key_run_in_order_and_all_is_committed(any_topic, until, kind, client):
    any_topic.write(numbers(400), key_of, spread)
    consumer = any_topic.consumer(handlers(any_topic.seen)[kind], client=client, concurrency=16)
    with consumer:
        until(lambda: len(any_topic.seen) == 400)
    assert_key_order(any_topic.seen, 400)
    assert [any_topic.committed(0), any_topic.committed(1)] == [
        sum(spread(value) == number for value in numbers(400)) for number in (0, 1)
    ]
    assert consumer.status().state is State.STOPPED
    assert consumer.status().tally["done"] == 400


# covers: I3
@pytest.mark.parametrize("order", list(Order))
def test_the_order_of_partitions_and_of_nothing(topic, until, order):
    running, most, lock = Counter(), Counter(), threading.Lock()

    def handle(record):
        with lock:
            running[record.partition] += 1
            most[record.partition] = max(most[record.partition], running[record.partition])
        time.sleep(0.01)
        topic.seen.add(record)
        with lock:
            running[record.partition] -= 1

    topic.write(numbers(60), key_of, spread)
    with topic.consumer(handle, order=order, concurrency=8):
        until(lambda: len(topic.seen) == 60)
    if order is Order.PARTITION:
        assert set(most.values()) == {1}
    else:
        assert max(most.values()) > 1
    if order is not Order.NONE:
        assert_key_order(topic.seen, 60)


# covers: I8
def test_a_plain_function_may_run_on_the_loop(topic, until):
    topic.write(numbers(300), key_of, spread)
    names = set()

    def handle(record):
        names.add(threading.current_thread().name)
        topic.seen.add(record)

    with topic.consumer(handle, run_in="loop"):
        until(lambda: len(topic.seen) == 300)
    assert_key_order(topic.seen, 300)
    assert len(names) == 1


# covers: I9, I10
@pytest.mark.parametrize("arrow", [False, True])
@pytest.mark.parametrize("order", list(Order))
def test_batches_hold_each_record_once_and_keep_the_order(topic, until, order, arrow):
    sizes = []

    def handle(batch):
        sizes.append(len(batch))
        if not arrow:
            for record in batch:
                topic.seen.add(record)
            return
        for row in batch.to_pylist():
            assert row["topic"] == topic.name
            with topic.seen.lock:
                topic.seen.values.append(row["value"])
                topic.seen.by_key[row["key"]].append(row["value"])

    topic.write(numbers(200), key_of, spread)
    with topic.consumer(handle, order=order, batch=Batch(records=30, wait=0.02, arrow=arrow), concurrency=2):
        until(lambda: len(topic.seen) == 200)
    assert sorted(map(int, topic.seen.values)) == list(range(200))
    if order is not Order.NONE:
        assert_key_order(topic.seen, 200)
    assert max(sizes) <= 30
    assert [topic.committed(0), topic.committed(1)] == [sum(spread(v) == n for v in numbers(200)) for n in (0, 1)]


# covers: H2, H17
@pytest.mark.parametrize("batch", [None, Batch(7, wait=0.01), Batch(200, wait=0.01)], ids=str)
def test_the_order_of_a_key_holds_over_many_polls(topic, until, batch):
    def handle_all(records):
        for record in records:
            topic.seen.add(record)

    topic.write(numbers(4_000), key_of, spread)
    with topic.consumer(topic.seen.add if batch is None else handle_all, batch=batch, concurrency=8):
        until(lambda: len(topic.seen) >= 4_000)
    assert_key_order(topic.seen, 4_000)
    assert topic.committed(0) + topic.committed(1) == 4_000


# covers: I9
def test_whole_batches_are_confirmed_only_when_their_last_record_is_done(topic, until):
    slow = threading.Event()

    def handle(record):
        if record.value == b"3":
            slow.wait(20)
        topic.seen.add(record)

    topic.write(numbers(10))
    consumer = topic.consumer(handle, delivery="whole_batch", commit=Commit(interval=0.05))
    with consumer:
        until(lambda: len(topic.seen) == 9)
        time.sleep(0.2)
        assert topic.committed() in (None, 0)
        slow.set()
        until(lambda: topic.committed() == 10)


# covers: I2
def test_at_most_once_commits_before_the_handler_runs(topic, until):
    committed_when_run = []

    def handle(record):
        committed_when_run.append((record.offset, topic.committed()))
        topic.seen.add(record)
        raise RuntimeError("once is enough")

    topic.write(numbers(3))
    consumer = topic.consumer(handle, delivery="at_most_once", concurrency=1, order=Order.PARTITION).start()
    with pytest.raises(ConsumerStopped, match="failed once"):
        consumer.wait(20)
    assert committed_when_run
    assert all(committed > offset for offset, committed in committed_when_run)
    assert max(Counter(topic.seen.values).values()) == 1


# covers: H2, H20, I1
def test_a_restart_runs_only_what_was_unfinished(any_topic, until):
    blocked = threading.Event()

    def handle(record):
        if record.value in (b"3", b"11"):
            blocked.wait(30)
        any_topic.seen.add(record)

    any_topic.write(numbers(20))
    first = any_topic.consumer(handle, commit=Commit(interval=0.05), order=Order.NONE)
    first.start()
    until(lambda: len(any_topic.seen) == 18)
    until(lambda: any_topic.committed() == 3)
    assert first.stop(drain=0.1).unfinished == 2
    before = list(any_topic.seen.values)
    second = any_topic.consumer(any_topic.seen.add, order=Order.NONE)
    with second:
        until(lambda: len(any_topic.seen) == 20)
        until(lambda: second.status().tally["spared"] == 15)
    assert sorted(any_topic.seen.values[18:]) == [b"11", b"3"]
    assert len(before) == 18
    assert any_topic.committed() == 20
    blocked.set()


# covers: H24
def test_a_second_member_takes_over_without_loss_or_repeats(any_topic, until):
    def handle(record):
        time.sleep(0.005)
        any_topic.seen.add(record)

    any_topic.write(numbers(300), key_of, spread)
    first = any_topic.consumer(handle, concurrency=4)
    second = any_topic.consumer(handle, concurrency=4)
    with first:
        until(lambda: len(any_topic.seen) > 40)
        with second:
            until(lambda: len(any_topic.seen) >= 300)
            until(lambda: len(first.status().partitions) == len(second.status().partitions) == 1)
    assert_key_order(any_topic.seen, 300)


# covers: H24
def test_a_revocation_waits_for_handlers_no_longer_than_the_drain_time_and_drops_late_results(topic, until):
    hold = threading.Event()

    def handle(record):
        topic.seen.add(record)
        hold.wait(30)

    topic.write([b"0"], partition=lambda _: 0)
    topic.write([b"1"], partition=lambda _: 1)
    first = topic.consumer(handle, drain=0.2, commit=Commit(interval=0.05))
    second = topic.consumer(topic.seen.add)
    with first:
        until(lambda: len(topic.seen) == 2)
        with second:
            # Its partition comes although the first member's handlers hang, and its record runs again.
            until(lambda: second.status().tally.get("done") == 1)
            hold.set()
            until(lambda: first.status().tally["late"] >= 1)
            until(lambda: topic.committed(0) == topic.committed(1) == 1)
    assert len(topic.seen) >= 3


# covers: I18
def test_misuse_is_answered_with_one_sentence(topic):
    with pytest.raises(ConfigError, match="is not callable"):
        topic.consumer("handler")
    with pytest.raises(ConfigError, match="threads, loop, processes"):
        topic.consumer(run_in="greenlets")
    with pytest.raises(ConfigError, match="async"):
        topic.consumer(handlers(topic.seen)["async"], run_in="threads")
    with pytest.raises(ConfigError, match="top level of a module"):
        topic.consumer(lambda record: None, run_in="processes")
    with pytest.raises(ConfigError, match="bytes"):
        topic.consumer(batch=Batch(arrow=True), value=str)
    with pytest.raises(ConfigError, match="client"):
        topic.consumer(client="librdkafka")
    consumer = topic.consumer()
    assert consumer.status().state is State.NEW
    with pytest.raises(UsageError, match="the parallel consumer has not been started"):
        consumer.skip(topic.partitions[0], 0)
    with pytest.raises(ConfigError, match="drain"):
        consumer.stop(drain=-1)
    consumer.stop()
    with pytest.raises(UsageError, match="once, and this one was stopped before it was started: create a new one"):
        consumer.start()


@pytest.mark.parametrize("kind", [ParallelConsumer, AsyncParallelConsumer])
def test_a_misspelt_argument_is_told_with_the_class_that_was_written_and_the_word_that_was_meant(kind):
    with pytest.raises(TypeError) as refused:
        kind({"bootstrap.servers": "localhost:1", "group.id": "g"}, "orders", print, concurency=3)
    assert str(refused.value) == (
        f"{kind.__name__}() got an unexpected keyword argument 'concurency'; did you mean 'concurrency'?"
    )
    assert list(inspect.signature(kind).parameters)[:4] == ["config", "topics", "handler", "order"]


def test_a_function_that_cannot_be_a_handler_is_told_by_its_name(topic):
    def generate(record):
        yield record

    with pytest.raises(ConfigError) as refused:
        topic.consumer(generate)
    assert "generate: is a generator function" in str(refused.value)
    assert " at 0x" not in str(refused.value)


# covers: I10, I11
def test_commits_are_told_to_the_callback_and_a_failing_callback_does_no_harm(topic, until):
    told = []

    def on_commit(offsets, error):
        told.append((dict(offsets), error))
        raise ValueError("a careless callback")

    topic.write(numbers(5))
    with topic.consumer(commit=Commit(interval=0.05, on_commit=on_commit)):
        until(lambda: any(offsets.get(topic.partitions[0]) == 5 for offsets, _ in told))
    assert {error for _, error in told} == {None}


@pytest.mark.parametrize("client", ["seamark", "confluent"])
@pytest.mark.parametrize("is_sync", [False, True])
@pytest.mark.parametrize("order", ["skip", "dead_letter"])
def test_the_commit_callback_may_ask_and_order_as_any_thread_may(topic, until, client, is_sync, order):
    topic.write(numbers(3))
    hanging, release, told, errors = threading.Event(), threading.Event(), [], []

    def handle(record):
        if record.offset == 0:
            hanging.set()
            release.wait(60)

    def on_commit(offsets, error):
        status = consumer.status()
        told.append(status.state)
        if any(holding.stall.offset == 0 for holding in status.holding):
            getattr(consumer, order)(topic.partitions[0], 0)
            try:
                consumer.wait_until(lambda: False)
            except UsageError as error_of_call:
                errors.append(str(error_of_call))

    commit = Commit(interval=0.05, sync=is_sync, on_commit=on_commit)
    consumer = topic.consumer(handle, order=Order.NONE, commit=commit, client=client, drain=0.0)
    try:
        with consumer:
            until(lambda: topic.committed() == 3)
    finally:
        release.set()
    assert hanging.is_set()
    assert set(told) <= {State.RUNNING, State.STOPPING}
    assert "wait_until() was called by on_commit" in errors[0]


def test_what_interrupts_the_consumers_own_thread_is_answered_at_once(topic, until):
    """A handler of log lines runs there in the middle of an event, as a signal handler may."""
    topic.write(numbers(1))
    answers = []

    class Asking(logging.Handler):
        def emit(self, record):
            if not answers and "failed" in record.getMessage():
                answers.append(consumer.status().state)
                try:
                    consumer.skip(topic.partitions[0], 0)
                except UsageError as error:
                    answers.append(str(error))

    def fail_once(record):
        if not answers:
            raise ValueError("the first time")

    log, asking = logging.getLogger("seamark.parallel"), Asking()
    log.addHandler(asking)
    try:
        consumer = topic.consumer(fail_once, retry=Retry(attempts=3, delay=0.01))
        with consumer:
            until(lambda: topic.committed() == 1)
    finally:
        log.removeHandler(asking)
    assert answers[0] is State.RUNNING
    assert "call them from another thread" in answers[1]


@pytest.mark.parametrize("place", ["threads", "loop", "async", "async, beside the loop"])
def test_a_handler_that_stops_its_consumer_goes_on_at_once_and_its_record_is_done(topic, place):
    answers = []

    def handle(record):
        answers.append(consumer.stop())

    async def handle_async(record):
        answers.append(await asyncio.to_thread(consumer.stop) if "beside" in place else consumer.stop())

    topic.write(numbers(1))
    is_async = place.startswith("async")
    # Longer than anybody waits: a handler that waited for the end would be waited for itself.
    options = {"retry": Retry(attempts=1), "drain": 600.0, "run_in": "auto" if is_async else place}
    consumer = topic.consumer(handle_async if is_async else handle, **options)
    consumer.start()
    assert consumer.wait(60).tally["done"] == 1
    assert answers == [None]
    assert topic.committed() == 1


def test_a_handler_that_stops_another_consumer_waits_for_its_end(topic, make_topic):
    other = make_topic().consumer().start()
    summaries = []
    topic.write(numbers(1))
    with topic.consumer(lambda record: summaries.append(other.stop())) as consumer:
        assert consumer.wait_until(lambda: summaries, 60)
    assert summaries[0].reason is None
