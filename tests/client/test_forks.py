"""Clients and brokers in a forked child: what the parent made is refused at once, what the child makes works."""

import asyncio
import os
import pickle
import traceback

import pytest

from seamark import Broker
from seamark.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    ColumnReader,
    Consumer,
    Producer,
    TopicPartition,
)
from seamark.client.errors import ClientError
from seamark.errors import MadeBeforeFork
from seamark.parallel import ParallelConsumer
from tests.support.waiting import eventually

# Python 3.12 and newer warn of what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

PARTITION = TopicPartition("t", 0)
REMEDY = "make a new one in the child, or start the child with multiprocessing's 'spawn' method"


def in_child(work):
    """What the function returns or raises in a forked child, which then ends."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                found = work()
            except BaseException as error:  # noqa: BLE001 - handed to the parent
                found = error
            os.write(writer, pickle.dumps(found))
        except BaseException:  # noqa: BLE001 - a child of a test run must not go on with the run
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(answer)


@pytest.fixture(scope="module")
def broker():
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as made:
        made.create_topic("t")
        yield made


@pytest.fixture
def options(broker):
    return {"bootstrap_servers": broker.bootstrap}


def assert_refuses(use):
    error = in_child(use)
    assert isinstance(error, MadeBeforeFork), repr(error)
    assert str(error).endswith(REMEDY)


def test_an_inherited_producer_is_refused_and_the_parent_delivers(options):
    producer = Producer(**options, linger_ms=60_000, delivery_timeout_ms=120_000)
    delivery = producer.send("t", b"the parent's")
    uses = [
        lambda: producer.send("t", b"x"),
        lambda: producer.send("t", b"x", key=b"k"),
        lambda: producer.send_many("t", [b"x"]),
        lambda: producer.partitions_for("t"),
        producer.flush,
    ]
    for use in uses:
        assert_refuses(use)
    waited = in_child(lambda: delivery.result(60))
    assert isinstance(waited, ClientError)
    assert REMEDY in str(waited)
    assert in_child(producer.close) is None
    assert not delivery.done()
    producer.close()
    assert delivery.result(0)


def test_an_inherited_consumer_is_refused_even_where_it_has_records(options):
    with Producer(**options) as producer:
        for _ in range(2):
            producer.send("t", b"x")
    with Consumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([PARTITION])
        eventually(lambda: consumer.poll(0.2, max_records=1), "a record")
        uses = [
            consumer.poll,
            consumer.poll_arrow,
            consumer.commit,
            consumer.wakeup,
            consumer.assignment,
            lambda: consumer.position(PARTITION),
            lambda: list(consumer.fetch_columns(PARTITION, 0, 1)),
        ]
        for use in uses:
            assert_refuses(use)
        assert in_child(consumer.close) is None
        assert consumer.position(PARTITION) == 1


def test_inherited_awaitable_clients_admins_and_readers_are_refused(options):
    async def awaited(call, *arguments):
        return await call(*arguments)

    producer, consumer, admin = AsyncProducer(**options), AsyncConsumer(**options), AsyncAdmin(**options)
    calls = [(producer.send, "t", b"x"), (producer.flush,), (consumer.poll, 5), (admin.list_topics,)]
    for call, *arguments in calls:
        assert_refuses(lambda call=call, arguments=arguments: asyncio.run(awaited(call, *arguments)))
    for each in (producer, consumer, admin):
        assert in_child(lambda each=each: asyncio.run(awaited(each.close))) is None
        asyncio.run(awaited(each.close))
    with Admin(**options) as blocking, ColumnReader(**options) as reader:
        assert_refuses(blocking.list_topics)
        assert_refuses(lambda: list(reader.fetch_columns(PARTITION, 0, 1)))
        assert in_child(blocking.close) is None
        assert in_child(reader.close) is None


def test_an_inherited_broker_is_refused_but_can_be_connected_to(broker):
    uses = [
        lambda: broker.create_topic("u"),
        lambda: broker.advance(1),
        lambda: broker.faults.fail("Fetch", "UNKNOWN_SERVER_ERROR"),
        broker.faults.clear,
        lambda: broker.nodes[0].stop(),
        lambda: broker.nodes[0].start(),
        lambda: broker.nodes[0].slow(1),
    ]
    for use in uses:
        assert_refuses(use)
    assert in_child(broker.close) is None

    def work():
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            return producer.send("t", b"the child's").result(60).topic

    # The parent has an I/O thread, too.
    Producer(bootstrap_servers=broker.bootstrap).close()
    assert in_child(work) == "t"


def test_a_child_makes_its_own_broker():
    def work():
        with Broker() as own, Producer(bootstrap_servers=own.bootstrap) as producer:
            return producer.send("t", b"x").result(60).offset

    assert in_child(work) == 0


def test_an_inherited_parallel_consumer_is_refused_and_the_parent_goes_on(broker):
    seen = []
    config = {"bootstrap.servers": broker.bootstrap, "group.id": "forked", "auto.offset.reset": "earliest"}
    consumer = ParallelConsumer(config, ["t"], seen.append)
    with consumer:
        uses = [
            consumer.stop,
            consumer.status,
            consumer.wait,
            consumer.run,
            consumer.start,
            lambda: consumer.wait_until(lambda: False),
            lambda: consumer.skip(PARTITION, 0),
            lambda: consumer.dead_letter(PARTITION, 0),
        ]
        for use in uses:
            assert_refuses(use)
        assert in_child(lambda: consumer.__exit__(None, None, None)) is None, "the end of a block has nothing to end"
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("t", b"the parent's").result(30)
        assert consumer.wait_until(lambda: seen, 60)
