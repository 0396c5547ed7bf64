"""Arrow batches become records, and acknowledgements errors: on the embedded broker, without Spark."""

import pyarrow as pa
import pytest

from seamark import Broker
from seamark.client import Admin, Consumer, TopicPartition
from seamark.client.errors import RecordTooLarge
from seamark.errors import UsageError
from seamark.spark.write import producers as writer_producers
from seamark.spark.write.options import WriteOptions
from seamark.spark.write.producers import CannotWrite, check_topic, producer_for
from seamark.spark.write.rows import BadRow, RowSender

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(scope="module")
def broker():
    with Broker(settings={"auto.create.topics.enable": "false"}) as started:
        yield started


@pytest.fixture
def topic(broker, fresh_name):
    name = fresh_name("rows")
    broker.create_topic(name, partitions=2)
    return name


def options(broker, **settings):
    return WriteOptions.of({"kafka.bootstrap.servers": broker.bootstrap, "kafka.max.block.ms": "1000"} | settings)


def write(broker, batches, topic=None, **settings):
    with producer_for(options(broker, **settings)) as producer:
        sender = RowSender(producer, topic)
        for batch in batches:
            sender.send(batch)
        sender.finish()
        return sender.count


def records(broker, *topics):
    """Everything the topics hold now, in the order of partitions and offsets."""
    partitions = [TopicPartition(topic, index) for topic in topics for index in range(2)]
    with Consumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=20) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        found = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            found += consumer.poll(1.0)
    return sorted(found, key=lambda record: (record.topic, record.partition, record.offset))


def test_every_column_reaches_its_record(broker, topic):
    other = topic + "-other"
    broker.create_topic(other, partitions=2)
    batch = pa.record_batch(
        {
            "offset": pa.array([7, 7, 7]),
            "key": pa.array(["a", None, "c"]),
            "value": pa.array([b"1", None, b""]),
            "headers": pa.array([[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []], HEADERS),
            "partition": pa.array([1, 0, None], pa.int32()),
            "topic": pa.array([topic, other, topic]),
        }
    )
    assert write(broker, [batch, batch.slice(3)]) == 3
    found = {(record.topic, record.key): record for record in records(broker, topic, other)}
    assert len(found) == 3
    first = found[topic, b"a"]
    assert (first.partition, first.value, first.headers) == (1, b"1", (("h", b"x"), ("h", None)))
    assert (found[other, None].value, found[other, None].partition) == (None, 0)
    assert (found[topic, b"c"].value, found[topic, b"c"].headers) == (b"", ())


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_text_and_bytes_are_written_alike(broker, topic, kind):
    values = ["grün", "x" * 1000, ""]
    column = pa.array([value.encode() for value in values], pa.large_binary()).cast(kind)
    write(broker, [pa.record_batch({"value": column, "key": column})], topic)
    found = records(broker, topic)
    assert sorted(record.value.decode() for record in found) == sorted(values)
    assert all(record.key == record.value for record in found)


def test_plain_values_of_many_batches_arrive_once_and_in_order(broker, topic):
    numbers = [str(number) for number in range(30_000)]
    batches = [pa.record_batch({"value": pa.array(numbers[start : start + 1000])}) for start in range(0, 30_000, 1000)]
    assert write(broker, batches, topic) == 30_000
    found = records(broker, topic)
    assert sorted(int(record.value) for record in found) == list(range(30_000))
    for index in range(2):
        order = [int(record.value) for record in found if record.partition == index]
        assert order == sorted(order)
        assert order


def test_a_partitioner_is_asked_for_every_record(broker, topic):
    write(broker, [pa.record_batch({"value": pa.array(["x"] * 10)})], topic, partitioner="round_robin")
    assert [record.partition for record in records(broker, topic)] == [0] * 5 + [1] * 5


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"value": ["a"], "topic": ["not-there"]}, CannotWrite, "topic 'not-there' does not exist on 127"),
        ({"value": ["a", "b"], "topic": ["t", None]}, BadRow, "row 1 of the task has no topic"),
        ({"value": ["x" * 2_000_000], "key": ["k"]}, RecordTooLarge, "larger than max.request.size=1048576"),
        ({"value": ["x" * 2_000_000]}, RecordTooLarge, "larger than max.request.size=1048576"),
        ({"value": ["x"], "partition": pa.array([9], pa.int32())}, UsageError, "is for partition 9"),
        ({"value": ["x"], "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}, BadRow, "has no key"),
    ],
)
def test_a_row_that_cannot_be_written_is_named(broker, topic, columns, error, words):
    columns = {name: pa.array(column) if isinstance(column, list) else column for name, column in columns.items()}
    with pytest.raises(error, match=words):
        write(broker, [pa.record_batch(columns)], None if "topic" in columns else topic)


@pytest.mark.parametrize("key", [None, "k"])
def test_a_record_that_the_broker_refuses_fails_the_task(broker, key):
    name = f"small-{key}"
    broker.create_topic(name, partitions=2, config={"max.message.bytes": "500"})
    column = {"value": pa.array(["x" * 2000])} | ({"key": pa.array([key])} if key else {})
    with pytest.raises(Exception, match="MESSAGE_TOO_LARGE") as raised:
        write(broker, [pa.record_batch(column)], name)
    assert name in str(raised.value)


def test_producers_serve_task_after_task_and_are_dropped_after_an_error(broker, topic):
    chosen = options(broker, **{"kafka.client.id": topic})
    with producer_for(chosen) as first:
        pass
    with producer_for(chosen) as second, producer_for(chosen) as third:
        assert second is first
        assert third is not first
    with pytest.raises(RuntimeError), producer_for(chosen) as failed:
        raise RuntimeError
    assert failed.is_closed
    with producer_for(chosen) as another:
        assert another is not failed
    with producer_for(
        options(broker, **{"kafka.client.id": topic, "kafka.acks": "1", "kafka.enable.idempotence": "false"})
    ) as other:
        assert other is not another


def test_a_topic_is_looked_for_before_the_rows_come(broker, topic, monkeypatch):
    check_topic(options(broker), topic)
    with pytest.raises(CannotWrite, match="create it"):
        check_topic(options(broker), "nowhere")
    # Known topics cost nothing the second time: a streaming query asks for every batch.
    monkeypatch.setattr(writer_producers, "wait_for_topic", lambda *_: pytest.fail("asked again"))
    check_topic(options(broker), topic)


def test_a_broker_that_makes_topics_makes_them():
    with Broker() as making:
        check_topic(options(making), "made")
        write(making, [pa.record_batch({"value": pa.array(["x"]), "topic": pa.array(["made-too"])})])
        with Admin(bootstrap_servers=making.bootstrap) as admin:
            assert {"made", "made-too"} == set(admin.list_topics())
