"""Whatever goes wrong, nothing is committed past unfinished work, nothing loops and nothing stops in silence."""

import asyncio
import logging
import threading
import time

import pytest

from seamark.client import Producer
from seamark.errors import ConfigError, UsageError
from seamark.parallel import Batch, Commit, ConsumerStopped, DeadLetter, Order, Park, Retry, Skip, Stop
from seamark.parallel.core.dead_letters import decode as read_dead_letter
from seamark.parallel.observe.status import State
from tests.parallel.test_running import numbers

TWICE = Retry(attempts=2, delay=0.01)


class Poisoned(Exception):
    pass


def poisoned_by(topic, *values):
    def handle(record):
        if record.value in values:
            raise Poisoned(f"cannot bear {record.value!r}")
        topic.seen.add(record)

    return handle


def others_done(topic, count):
    return lambda: len(topic.seen) == count


# covers: H2
def test_a_poison_record_stops_the_consumer_below_it(any_topic, until):
    any_topic.write(numbers(10), key=lambda value: value)
    consumer = any_topic.consumer(poisoned_by(any_topic, b"4"), retry=TWICE, then=Stop()).start()
    with pytest.raises(ConsumerStopped, match=r"offset 4 failed 2 times: Poisoned: cannot bear b'4'") as stopped:
        consumer.wait(30)
    assert any_topic.committed() == 4
    assert stopped.value.summary.unfinished >= 1
    assert consumer.status().state is State.FAILED
    assert "offset 4" in consumer.status().reason


# covers: H2, H20
@pytest.mark.parametrize("batch", [None, Batch(5, wait=0.01), Batch(5, wait=0.01, arrow=True)], ids=str)
def test_a_poison_record_goes_to_the_dead_letter_topic_with_its_story(topic, until, batch):
    from seamark.parallel.core.columns import rows_of

    one = poisoned_by(topic, b"4")

    def handle(given):
        for record in [given] if batch is None else rows_of(given) if batch.arrow else given:
            one(record)

    topic.write(numbers(10), headers=[("own", b"header")])
    options = {"retry": TWICE, "then": DeadLetter(), "batch": batch, "order": Order.NONE}
    with topic.consumer(handle, **options) as consumer:
        until(lambda: consumer.status().tally["dead_lettered"] == 1)
        until(lambda: len(set(topic.seen.values)) == 9)
    assert topic.committed() == 10
    (letter,) = topic.read(f"{topic.name}.dead-letters", 1)
    provenance, headers = read_dead_letter(letter.headers), dict(letter.headers)
    assert (letter.value, headers["own"]) == (b"4", b"header")
    assert (provenance.source, provenance.offset, provenance.attempts) == (topic.partitions[0], 4, 2)
    assert provenance.group == topic.group
    assert "cannot bear" in provenance.error
    assert "raise Poisoned" in provenance.stack


# covers: H2
def test_a_poison_record_is_skipped_or_parked(topic, until):
    topic.write(numbers(10), key=lambda value: value)
    with topic.consumer(poisoned_by(topic, b"4"), retry=TWICE, then=Skip()) as consumer:
        until(lambda: topic.committed() == 10)
        assert consumer.status().tally["skipped"] == 1
    topic.write(numbers(3), key=lambda value: value, partition=lambda _: 1)
    with topic.consumer(poisoned_by(topic, b"1"), retry=TWICE, then=Park(), commit=Commit(interval=0.05)) as consumer:
        until(lambda: consumer.status().parked)
        until(lambda: topic.committed(1) == 1)
        (parked,) = consumer.status().parked
        assert (parked.offset, parked.attempts, parked.error) == (1, 2, "Poisoned: cannot bear b'1'")
        consumer.skip(topic.partitions[1], 1)
        until(lambda: topic.committed(1) == 3)


# covers: H2
def test_a_record_that_cannot_be_deserialized_is_given_up_without_a_retry_and_others_go_on(topic, until):
    values = []
    topic.write([b"1", b"one", b"2"])
    options = {"value": lambda content: int(content), "then": DeadLetter(), "order": Order.NONE}
    with topic.consumer(lambda record: values.append(record.value), **options) as consumer:
        until(lambda: topic.committed() == 3)
        assert consumer.status().tally["retried"] == 0
    assert sorted(values) == [1, 2]
    (letter,) = topic.read(f"{topic.name}.dead-letters", 1)
    assert letter.value == b"one"
    assert "deserialized" in read_dead_letter(letter.headers).error


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration()])
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_handler_raises_is_a_failure_of_its_record(topic, until, raised, is_async):
    tries = []

    def handle(record):
        tries.append(record.offset)
        if len(tries) < 3:
            raise raised
        topic.seen.add(record)

    async def handle_async(record):
        handle(record)

    topic.write(numbers(2))
    with topic.consumer(handle_async if is_async else handle, retry=Retry(attempts=5, delay=0.01)) as consumer:
        until(lambda: len(topic.seen) == 2)
        until(lambda: topic.committed() == 2)
        assert consumer.status().state is State.RUNNING


def test_a_plain_function_that_returns_a_coroutine_has_not_done_its_work(topic):
    async def forgotten():
        pass

    topic.write(numbers(1))
    consumer = topic.consumer(lambda record: forgotten(), retry=Retry(attempts=1)).start()
    with pytest.raises(ConsumerStopped, match="async def"):
        consumer.wait(20)
    assert topic.committed() in (None, 0)


@pytest.mark.parametrize("batch", [None, Batch(10), Batch(10, arrow=True)], ids=["one", "batch", "arrow"])
def test_work_that_a_handler_leaves_in_a_generator_is_not_committed(topic, batch):
    def handle(given):
        return (each for each in [given])

    topic.write(numbers(3))
    consumer = topic.consumer(handle, retry=Retry(attempts=1), batch=batch).start()
    with pytest.raises(ConsumerStopped, match="a generator, which is not run"):
        consumer.wait(20)
    assert topic.committed() in (None, 0)


@pytest.mark.parametrize("batch", [None, Batch(10), Batch(10, arrow=True)], ids=["one", "batch", "arrow"])
@pytest.mark.parametrize("run_in", ["auto", "threads", "loop", "processes"])
def test_a_generator_function_is_refused_when_the_consumer_is_made(topic, run_in, batch):
    def handle(given):
        yield given

    with pytest.raises(ConfigError, match="is a generator function, so calling it runs nothing"):
        topic.consumer(handle, run_in=run_in, batch=batch)


def test_other_answers_of_a_handler_mean_nothing(topic, until):
    topic.write(numbers(3))
    with topic.consumer(lambda record: [object(), False, "no"]) as consumer:
        until(lambda: consumer.status().tally["done"] == 3)


# covers: H2
@pytest.mark.parametrize("is_async", [False, True])
def test_a_hanging_handler_is_named_with_its_place_and_can_be_skipped(topic, until, is_async, caplog):
    release = threading.Event()

    def hang_here(record):
        if record.value == b"0":
            release.wait(30)
        topic.seen.add(record)

    async def hang_there(record):
        while record.value == b"0" and not release.is_set():
            await asyncio.sleep(0.01)
        topic.seen.add(record)

    topic.write(numbers(3))
    handler = hang_there if is_async else hang_here
    with (
        caplog.at_level(logging.WARNING, "seamark.parallel"),
        topic.consumer(handler, stall_after=0.1, commit=Commit(interval=0.05), drain=0.2) as consumer,
    ):
        until(lambda: len(topic.seen) == 2)
        until(lambda: consumer.status().stalls)
        (stall,) = consumer.status().stalls
        assert (stall.stall.offset, stall.stall.waiting) == (0, 2)
        assert "test_failures.py" in stall.stands_at
        assert "hang_" in stall.stands_at
        until(lambda: any("has been held at offset 0" in message for message in caplog.messages))
        assert topic.committed() in (None, 0)
        with pytest.raises(UsageError, match="not in flight"):
            consumer.skip(topic.partitions[0], 1)
        consumer.skip(topic.partitions[0], 0)
        until(lambda: topic.committed() == 3)
        release.set()


def test_a_hanging_record_can_be_dead_lettered_by_call(topic, until):
    release = threading.Event()
    topic.write(numbers(1))
    with topic.consumer(lambda record: release.wait(30), commit=Commit(interval=0.05), drain=0.2) as consumer:
        until(lambda: consumer.status().running == 1)
        consumer.dead_letter(topic.partitions[0], 0, topic=f"{topic.name}-given-up")
        until(lambda: topic.committed() == 1)
        release.set()
    (letter,) = topic.read(f"{topic.name}-given-up", 1)
    assert letter.value == b"0"


@pytest.mark.parametrize("client", ["seamark", "confluent"])
def test_a_value_that_was_small_only_as_compressed_gets_to_the_dead_letter_topic(topic, until, client):
    large = bytes(3 << 20)
    limits = {"compression_type": "zstd", "max_request_size": 8 << 20}
    with Producer(bootstrap_servers=topic.bootstrap, **limits) as producer:
        producer.send(topic.name, large, partition=0)
    topic.write(numbers(3), partition=lambda _: 1)
    dead = f"{topic.name}.dead-letters"
    topic.broker.create_topic(dead, partitions=1)
    with topic.consumer(poisoned_by(topic, large), retry=TWICE, then=DeadLetter(), client=client):
        until(others_done(topic, 3))
        until(lambda: topic.committed() == 1)


# covers: H2
@pytest.mark.parametrize("client", ["seamark", "confluent"])
def test_a_dead_letter_topic_that_refuses_stops_the_consumer_and_keeps_the_record(topic, client):
    topic.write(numbers(3), key=lambda value: value)
    consumer = topic.consumer(
        poisoned_by(topic, b"1"), retry=Retry(attempts=1), then=DeadLetter(topic="not a topic!"), client=client
    ).start()
    with pytest.raises(ConsumerStopped, match="offset 1 could not be written to its dead-letter topic"):
        consumer.wait(40)
    assert topic.committed() == 1


def test_when_nearly_everything_fails_the_consumer_stops(topic):
    def handle(record):
        raise Poisoned

    topic.write(numbers(50), key=lambda value: value)
    consumer = topic.consumer(handle, retry=Retry(attempts=1), then=Skip(max_ratio=0.5, window=20)).start()
    with pytest.raises(ConsumerStopped, match="of the last 20 records were given up"):
        consumer.wait(20)


PASSING = ["COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "REBALANCE_IN_PROGRESS"]
ENDING = ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"]
REFUSING = ["INVALID_COMMIT_OFFSET_SIZE", "OFFSET_METADATA_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED"]
UNKNOWN = ["UNKNOWN_SERVER_ERROR", "UNKNOWN_TOPIC_OR_PARTITION", "REQUEST_TIMED_OUT", "INVALID_REQUEST"]


# covers: F20, F21, H25
@pytest.mark.parametrize(
    ("code", "client"),
    [
        *((code, "seamark") for code in (*PASSING, *ENDING, *REFUSING, *UNKNOWN, "GROUP_AUTHORIZATION_FAILED")),
        *((code, "confluent") for code in ("REBALANCE_IN_PROGRESS", REFUSING[0], UNKNOWN[0])),
    ],
)
def test_a_refused_commit_is_made_again(topic, until, code, client):
    topic.write(numbers(3))
    fault = topic.broker.faults.fail("OffsetCommit", code, times=1)
    # A member that was told to go comes back when its old self is forgotten.
    config = {"session.timeout.ms": 1000}
    with topic.consumer(commit=Commit(interval=0.03), client=client, config=config) as consumer:
        until(lambda: topic.committed() == 3)
        assert consumer.status().state is State.RUNNING
    assert fault.hits == 1
    assert set(topic.seen.values) == set(numbers(3))


def test_polling_goes_on_under_back_pressure_and_the_budget_holds(topic, until):
    release = threading.Event()

    def handle(record):
        release.wait(30)
        topic.seen.add(record)

    topic.write([b"x" * 1000] * 400, partition=lambda _: 1)
    with topic.consumer(
        handle, order=Order.NONE, concurrency=2, buffer_bytes=100_000, config={"max.poll.interval.ms": 6000}
    ) as consumer:
        until(lambda: consumer.status().partitions and consumer.status().partitions[topic.partitions[1]].is_paused)
        time.sleep(1.0)
        status = consumer.status()
        # What one poll brings may come on top.
        assert status.held_bytes < 100_000 + 500 * 1_700
        assert status.in_flight < 400 or status.partitions[topic.partitions[1]].is_paused
        assert status.state is State.RUNNING
        release.set()
        until(lambda: len(topic.seen) == 400)
    assert topic.committed(1) == 400


def test_a_broker_that_is_not_there_stops_the_consumer_with_a_sentence():
    from seamark.parallel import ParallelConsumer

    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "default.api.timeout.ms": 500}
    consumer = ParallelConsumer(config, ["t"], print).start()
    with pytest.raises(ConsumerStopped, match="no broker could be reached"):
        consumer.wait(30)


# covers: H25
def test_a_committer_that_cannot_compute_stops_the_consumer_visibly(topic, until):
    topic.write(numbers(3))
    consumer = topic.consumer(commit=Commit(interval=0.05)).start()
    until(lambda: topic.committed() == 3)

    def break_it(now):
        consumer._runtime.engine.committer.done(topic.partitions[0], term, [10**6])
        return []

    term = consumer.status().partitions[topic.partitions[0]].term
    consumer._runtime.mailbox.tell(break_it)
    with pytest.raises(ConsumerStopped, match="polled only up to 3") as stopped:
        consumer.wait(20)
    assert "committer" in stopped.value.reason or "InvariantViolation" in stopped.value.reason
    assert consumer.status().state is State.FAILED
    assert topic.committed() == 3
