"""The sink: the same records as Spark's own, at least once, with errors that say what is wrong."""

from __future__ import annotations

import pytest

from seamark.client import Consumer, TopicPartition
from seamark.client.admin.types import NewTopic
from tests.support.spark_session import our_sentence


def records(bootstrap, topic, partitions=3):
    """Everything the topic holds, as values that can be compared."""
    addresses = [TopicPartition(topic, index) for index in range(partitions)]
    with Consumer(bootstrap_servers=bootstrap, enable_auto_commit=False, fetch_max_wait_ms=20) as consumer:
        consumer.assign(addresses)
        consumer.seek_to_beginning(addresses)
        ends = consumer.end_offsets(addresses)
        found = []
        while any(consumer.position(each) < ends[each] for each in addresses):
            found += consumer.poll(1.0)
    return sorted(
        ((record.partition, record.key, record.value, record.headers) for record in found),
        key=repr,
    )


def write(frame, bootstrap, mode="append", form="seamark", **options):
    frame.write.format(form).option("kafka.bootstrap.servers", bootstrap).options(**options).mode(mode).save()


@pytest.fixture
def rows(spark):
    """Keys, values, tombstones, headers and explicit partitions, of every kind the sink takes."""
    return spark.range(200).selectExpr(
        "if(id % 5 = 0, null, concat('key-', id % 17)) as key",
        "if(id % 7 = 0, null, encode(concat('wert-', id, '-grün'), 'UTF-8')) as value",
        "if(id % 3 = 0, null, array(named_struct('key', 'h', 'value', encode(string(id), 'UTF-8')), "
        "named_struct('key', 'n', 'value', cast(null as binary)))) as headers",
        "if(id % 5 = 0, int(id % 3), null) as partition",
        "id as not_written",
    )


def test_records_are_those_of_sparks_own_sink(spark_with_connector, apache_kafka, rows, fresh_name):
    from seamark.client import Admin

    theirs, ours = fresh_name("theirs"), fresh_name("ours")
    with Admin(bootstrap_servers=apache_kafka.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 3, 1) for name in (theirs, ours)]).raise_if_failed()
    for form, topic in (("kafka", theirs), ("seamark", ours)):
        write(rows, apache_kafka.bootstrap, form=form, topic=topic)
    expected = records(apache_kafka.bootstrap, theirs)
    assert len(expected) == 200
    assert records(apache_kafka.bootstrap, ours) == expected


def test_each_row_can_name_its_topic_and_the_option_wins(spark, our_broker, fresh_name):
    first, second, third = (fresh_name("rows") for _ in range(3))
    for name in (first, second, third):
        our_broker.create_topic(name, partitions=3)
    frame = spark.range(10).selectExpr(f"if(id < 4, '{first}', '{second}') as topic", "string(id) as value")
    write(frame, our_broker.bootstrap)
    assert [len(records(our_broker.bootstrap, name)) for name in (first, second)] == [4, 6]
    write(frame, our_broker.bootstrap, topic=third)
    assert len(records(our_broker.bootstrap, third)) == 10


def test_what_our_source_read_can_be_written_as_it_is(spark, our_broker, fresh_name):
    one, other = fresh_name("copy-from"), fresh_name("copy-to")
    for name in (one, other):
        our_broker.create_topic(name, partitions=3)
    write(spark.range(50).selectExpr("string(id) as key", "string(id) as value"), our_broker.bootstrap, topic=one)
    frame = (
        spark.read.format("seamark")
        .option("kafka.bootstrap.servers", our_broker.bootstrap)
        .option("subscribe", one)
        .option("includeHeaders", "true")
        .load()
    )
    write(frame, our_broker.bootstrap, topic=other)
    assert records(our_broker.bootstrap, other) == records(our_broker.bootstrap, one)


def test_a_stream_writes_its_batches_and_goes_on_after_a_restart(spark, our_broker, fresh_name, tmp_path):
    one, other = fresh_name("stream-from"), fresh_name("stream-to")
    for name in (one, other):
        our_broker.create_topic(name, partitions=3)

    def run():
        frame = (
            spark.readStream.format("seamark")
            .option("kafka.bootstrap.servers", our_broker.bootstrap)
            .option("subscribe", one)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "30")
            .load()
        )
        query = (
            frame.selectExpr("key", "upper(string(value)) as value")
            .writeStream.format("seamark")
            .option("kafka.bootstrap.servers", our_broker.bootstrap)
            .option("topic", other)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(250)

    for start in (0, 50):
        values = spark.range(start, start + 50).selectExpr("string(id) as key", "concat('v', id) as value")
        write(values, our_broker.bootstrap, topic=one)
        run()
    assert sorted(value for _, _, value, _ in records(our_broker.bootstrap, other)) == sorted(
        b"V%d" % number for number in range(100)
    )


def test_a_batch_that_failed_is_written_again_after_the_restart(spark, writable, fresh_name, tmp_path):
    source, early, late = (fresh_name(name) for name in ("failing-from", "early", "late"))
    writable.broker.create_topic(source, partitions=3)
    writable.broker.create_topic(early, partitions=3)
    write(spark.range(20).selectExpr("string(id) as value"), writable.bootstrap, topic=source)

    def start():
        frame = (
            spark.readStream.format("seamark")
            .option("kafka.bootstrap.servers", writable.bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("value", f"if(int(string(value)) < 10, '{early}', '{late}') as topic")
        )
        return (
            frame.writeStream.format("seamark")
            .option("kafka.bootstrap.servers", writable.bootstrap)
            .option("kafka.max.block.ms", "1000")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    with pytest.raises(Exception, match="seamark") as raised:
        start().awaitTermination(250)
    assert f"topic '{late}' does not exist" in str(raised.value)
    writable.broker.create_topic(late, partitions=3)
    assert start().awaitTermination(250)
    # At least once: what the failed attempt wrote is there as well.
    assert {int(value) for _, _, value, _ in records(writable.bootstrap, early)} == set(range(10))
    assert [int(value) for value in sorted(value for _, _, value, _ in records(writable.bootstrap, late))] == list(
        range(10, 20)
    )


@pytest.mark.parametrize(
    ("columns", "options", "mode", "words"),
    [
        (["'a' as value"], {"topic": "not-there"}, "append", "topic 'not-there' does not exist on 127.0.0.1"),
        (["'a' as value", "'not-there' as topic"], {}, "append", "topic 'not-there' does not exist on 127.0.0.1"),
        (["'a' as value"], {"topic": "{topic}"}, "overwrite", "use mode('append')"),
        (["'a' as value"], {"topic": "{topic}", "topics": "x"}, "append", "did you mean 'topic'?"),
        (
            ["id as value"],
            {"topic": "{topic}"},
            "append",
            "the column 'value' must be string or binary, got bigint: cast it",
        ),
        (["'a' as key"], {"topic": "{topic}"}, "append", "a column 'value' is required"),
        (["'a' as value"], {}, "append", "set the option 'topic', or add a column 'topic'"),
        (["repeat('x', 2000000) as value"], {"topic": "{topic}"}, "append", "is larger than max.request.size=1048576"),
        (["'a' as value", "9 as partition"], {"topic": "{topic}"}, "append", "is for partition 9"),
        (["'a' as value", "string(null) as topic"], {}, "append", "has no topic"),
    ],
)
def test_a_write_that_cannot_be_ends_with_our_sentence(spark, writable, fresh_name, columns, options, mode, words):
    frame = spark.range(1).coalesce(1).selectExpr(*columns)
    options = {name: value.format(topic=writable.topic) for name, value in options.items()}
    with pytest.raises(Exception, match="seamark") as raised:
        write(frame, writable.bootstrap, mode, **{"kafka.max.block.ms": "1000"}, **options)
    assert words in our_sentence(raised.value)


@pytest.fixture(scope="module")
def writable():
    """A broker that makes no topics by itself, with one that is there."""
    from types import SimpleNamespace

    from seamark import Broker

    with Broker(settings={"auto.create.topics.enable": "false"}) as broker:
        broker.create_topic("there", partitions=2)
        yield SimpleNamespace(broker=broker, bootstrap=broker.bootstrap, topic="there")


def test_a_broker_that_cannot_be_reached_is_named(spark):
    with pytest.raises(Exception, match="seamark") as raised:
        write(spark.range(1).selectExpr("'a' as value"), "127.0.0.1:1", topic="t", **{"kafka.max.block.ms": "1000"})
    assert "127.0.0.1:1" in our_sentence(raised.value)
