"""Producing against every broker: what is acknowledged is stored, once, in order, where it belongs."""

import asyncio
import threading
import time

import pytest

from seamark.client import AsyncProducer, Consumer, Delivered, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from seamark.client.errors import BrokerError, NoBrokerAvailable, OperationTimedOut, RecordTooLarge
from seamark.errors import ClosedError, ConfigError, UsageError
from seamark.partitioners import Partitioner, partition_for_key
from seamark.wire.protocol.error_codes import ErrorCode


@pytest.fixture
def topic(admin, fresh_name):
    name = fresh_name("produce")
    admin.create_topics([NewTopic(name, 3, 1, {"max.message.bytes": "20000"})]).raise_if_failed()
    return name


@pytest.fixture
def producer_of(kafka_like):
    made = []

    def make(**options):
        producer = Producer(bootstrap_servers=kafka_like.bootstrap, **options)
        made.append(producer)
        return producer

    yield make
    for producer in made:
        producer.close(10.0)


@pytest.fixture
def stored(kafka_like):
    """Everything that a topic holds."""

    def read(topic, partitions=3, seconds=20.0):
        with Consumer(bootstrap_servers=kafka_like.bootstrap, auto_offset_reset="earliest") as consumer:
            places = [TopicPartition(topic, number) for number in range(partitions)]
            consumer.assign(places)
            ends = consumer.end_offsets(places)
            found, deadline = [], time.monotonic() + seconds
            while len(found) < sum(ends.values()) and time.monotonic() < deadline:
                found += consumer.poll(0.5)
        return found

    return read


@pytest.mark.parametrize("acks", ["all", 1, 0])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_stored_with_every_codec_and_every_kind_of_acknowledgement(producer_of, topic, stored, codec, acks):
    # Without acknowledgement nobody says that a new topic's leader is not ready: one that was heard of is.
    for partition in range(3):
        producer_of().send(topic, b"ready", partition=partition).result(20)
    producer = producer_of(acks=acks, compression_type=codec)
    sent = [producer.send(topic, b"v%d" % number, key=b"k%d" % number) for number in range(300)]
    producer.flush(30)
    assert all(delivery.done() for delivery in sent)
    time.sleep(0.5 if acks == 0 else 0)
    found = [record for record in stored(topic) if record.value != b"ready"]
    assert sorted(record.value for record in found) == sorted(b"v%d" % number for number in range(300))
    if acks != 0:
        offsets = {(record.partition, record.offset): record.value for record in found}
        for number, delivery in enumerate(sent):
            where = delivery.result(0)
            assert offsets[where.partition, where.offset] == b"v%d" % number
    else:
        assert sent[0].result().offset == -1


def test_a_delivery_says_where_and_when(producer_of, topic):
    delivery = producer_of().send(topic, b"x", partition=2, timestamp_ms=1_700_000_000_123)
    assert delivery.partition == TopicPartition(topic, 2)
    assert delivery.result(10) == Delivered(topic, 2, 0, 1_700_000_000_123)
    assert delivery.exception() is None


def test_keys_go_where_every_kafka_producer_puts_them(producer_of, topic):  # covers: J2, J6
    producer = producer_of()
    for key in (b"aaa", b"demoTopic", b"21", b"foobar", b""):
        assert producer.send(topic, b"", key=key).result(10).partition == partition_for_key(key, 3)


def test_records_without_a_key_stick_to_a_partition_for_a_batch(producer_of, topic, stored):  # covers: J2, J7
    producer = producer_of(batch_size=2000, linger_ms=50)
    # Enough for chance: the next partition is drawn about every 64 records.
    for _ in range(3000):
        producer.send(topic, b"x" * 50)
    producer.flush(30)
    found = stored(topic)
    runs = {number: sum(record.partition == number for record in found) for number in range(3)}
    assert sum(runs.values()) == 3000
    assert all(runs.values()), "all partitions get their share"


def test_a_partitioner_of_ones_own_decides(producer_of, topic):
    class Last(Partitioner):
        def partition(self, topic, key, value, choices):
            return choices.count - 1

    producer = producer_of(partitioner_class=Last)
    assert producer.send(topic, b"x", key=b"aaa").result(10).partition == 2
    assert producer.send(topic, b"x", partition=0).result(10).partition == 0
    with pytest.raises(UsageError, match="partition 3 of topic"):
        producer.send(topic, b"x", partition=3)


def test_headers_and_tombstones_arrive(producer_of, topic, stored):
    producer = producer_of()
    producer.send(topic, None, key=b"k", headers={"a": b"1", "b": None}, partition=0)
    producer.send(topic, b"v", headers=[("a", b"1"), ("a", b"2")], partition=0)
    producer.flush(10)
    first, second = stored(topic)
    assert (first.key, first.value, first.headers) == (b"k", None, (("a", b"1"), ("b", None)))
    assert second.headers == (("a", b"1"), ("a", b"2"))


def test_many_values_at_once_keep_their_order(producer_of, topic, stored):
    producer = producer_of(batch_size=1500)
    run = producer.send_many(topic, [b"%05d" % number for number in range(2000)], partition=1)
    assert len(run) == 2000
    assert [each.offset for each in run.result(20)] == list(range(2000))
    assert [int(record.value) for record in stored(topic)] == list(range(2000))
    spread = producer.send_many(topic, [b"x"] * 2000)
    assert {each.partition for each in spread.result(20)} == {0, 1, 2}
    assert len(producer.send_many(topic, []).result(1)) == 0


def test_callbacks_run_in_order_and_before_flush_returns(producer_of, topic):
    heard, threads = [], set()

    def note(delivered, error):
        threads.add(threading.current_thread().name)
        heard.append((delivered.offset, error))

    producer = producer_of(batch_size=500)
    for _ in range(200):
        producer.send(topic, b"x" * 20, partition=0, on_delivery=note)
    producer.flush(20)
    assert heard == [(number, None) for number in range(200)]
    assert threads == {"seamark-delivery"}, "never on the thread that serves all clients"


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, asyncio.CancelledError, KeyboardInterrupt])
def test_a_callback_that_fails_does_no_harm(producer_of, topic, caplog, error):
    heard = []

    def fail(delivered, refusal):
        raise error

    producer = producer_of(linger_ms=1000)
    producer.send(topic, b"x", on_delivery=fail)
    producer.send(topic, b"x", on_delivery=lambda *found: heard.append(found))
    producer.flush(20)
    assert "a delivery callback failed" in caplog.text
    producer.send(topic, b"y", on_delivery=lambda *found: heard.append(found))
    producer.flush(20)
    assert len(heard) == 2


def test_threads_share_a_producer(producer_of, topic, stored):
    producer = producer_of(batch_size=1000)

    def work(name):
        for number in range(300):
            producer.send(topic, b"%d %d" % (name, number), partition=0)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush(20)
    seen = {}
    for record in stored(topic):
        name, number = map(int, record.value.split())
        assert number == seen.get(name, -1) + 1, "each thread's records are in its order"
        seen[name] = number
    assert seen == dict.fromkeys(range(4), 299)


def test_a_batch_too_large_for_the_topic_is_split(producer_of, topic, stored):
    producer = producer_of(batch_size=60_000, linger_ms=1000)
    heard = []
    sent = [
        producer.send(topic, b"%03d" % n + b"x" * 1000, partition=0, on_delivery=lambda *found: heard.append(found))
        for n in range(50)
    ]
    producer.flush(20)
    assert [delivery.result(0).offset for delivery in sent] == list(range(50))
    assert [int(record.value[:3]) for record in stored(topic)] == list(range(50))
    assert [found[0].offset for found in heard] == list(range(50))
    later = producer.send(topic, b"after", partition=0)
    assert later.result(10).offset == 50


def test_a_record_too_large_is_refused_by_whoever_notices(producer_of, topic):
    producer = producer_of(max_request_size=50_000)
    with pytest.raises(RecordTooLarge, match=r"60036 bytes for topic .* larger than max.request.size=50000"):
        producer.send(topic, b"x" * 60_000)
    error = producer.send(topic, b"x" * 30_000, partition=0).exception(10)
    assert isinstance(error, BrokerError)
    assert error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
    assert producer.send(topic, b"small", partition=0).result(10).offset == 0, "the producer is usable after it"


def test_a_topic_that_does_not_exist_is_made_by_asking(producer_of, fresh_name, stored):
    name = fresh_name("made")
    producer = producer_of()
    assert producer.send(name, b"x").result(20).offset == 0
    assert len(producer.partitions_for(name)) >= 1


def test_a_topic_that_cannot_exist_is_refused(producer_of):
    with pytest.raises(BrokerError, match="INVALID_TOPIC_EXCEPTION"):
        producer_of().send("not/allowed", b"x")


def test_wrong_use_is_told_at_once(producer_of, topic):
    producer = producer_of()
    with pytest.raises(UsageError, match=r"value of a record for topic .* is str, not bytes"):
        producer.send(topic, "text")
    with pytest.raises(UsageError, match="header 'h' is int"):
        producer.send(topic, b"x", headers=[("h", 1)])
    with pytest.raises(UsageError, match="timestamp"):
        producer.send(topic, b"x", timestamp_ms=-5)
    with pytest.raises(UsageError, match="many values"):
        producer.send_many(topic, b"bytes")
    with pytest.raises(UsageError, match="a name, not None"):
        producer.send(None, b"x")
    producer.close()
    with pytest.raises(ClosedError):
        producer.send(topic, b"x")


def test_transactions_are_not_offered(kafka_like):
    with pytest.raises(ConfigError, match=r"transactional\.id"):
        Producer(bootstrap_servers=kafka_like.bootstrap, transactional_id="t")


def test_closing_sends_what_waits(kafka_like, topic, stored):
    with Producer(bootstrap_servers=kafka_like.bootstrap, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        delivery = producer.send(topic, b"x")
    assert delivery.result(0).offset == 0
    assert len(stored(topic)) == 1


def test_the_awaitable_producer_does_the_same(kafka_like, topic, stored):
    async def work():
        async with AsyncProducer(bootstrap_servers=kafka_like.bootstrap, batch_size=500) as producer:
            deliveries = [await producer.send(topic, b"%d" % number, partition=0) for number in range(100)]
            assert [(await delivery).offset for delivery in deliveries] == list(range(100))
            run = await producer.send_many(topic, [b"y"] * 50, partition=0)
            assert [each.offset for each in await run] == list(range(100, 150))
            last = await producer.send(topic, b"z", partition=0)
            await producer.flush(10)
            assert last.done()

    asyncio.run(work())
    assert len(stored(topic)) == 151


def test_a_broker_that_says_nothing_is_told_within_max_block_ms(peer):
    address = peer(lambda connection: time.sleep(5))
    started = time.monotonic()
    said = pytest.raises((NoBrokerAvailable, OperationTimedOut), match=r"0\.5 s")
    with Producer(bootstrap_servers=address, max_block_ms=500) as producer, said:
        producer.send("t", b"x")
    assert time.monotonic() - started < 4.5


def test_back_pressure_bounds_memory_without_losing_records(producer_of, topic, stored):
    producer = producer_of(buffer_memory=5000, batch_size=1000, max_block_ms=20_000)
    for number in range(1000):
        producer.send(topic, b"%04d" % number * 10, partition=0)
        assert producer.metrics()["seamark_producer_buffered_bytes"] <= 5000
    producer.send_many(topic, [b"m" * 40] * 1000, partition=0)
    producer.flush(20)
    assert len(stored(topic)) == 2000
    assert producer.metrics()["seamark_producer_buffered_bytes"] == 0
