"""Batch queries over the embedded broker: columns, starting and ending points, splitting, and refusals."""

from __future__ import annotations

import json
import sys

import pytest

from seamark.client import Producer, TopicPartition
from tests.support.spark_session import our_sentence

STAMP_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def filled(our_broker):
    """A topic of two partitions with 50 records each, a second apart."""
    our_broker.create_topic("batch-filled", partitions=2)
    with Producer(bootstrap_servers=our_broker.bootstrap) as producer:
        for number in range(100):
            producer.send(
                "batch-filled",
                None if number % 7 == 0 else b"value-%d" % number,
                key=None if number % 3 == 0 else b"key-%d" % number,
                headers=[("number", b"%d" % number), ("none", None)] if number % 5 == 0 else [],
                partition=number % 2,
                timestamp_ms=STAMP_MS + (number // 2) * 1000,
            )
    return "batch-filled"


def read(spark, broker, schema=None, **options):
    reader = spark.read.format("seamark").option("kafka.bootstrap.servers", broker.bootstrap)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.options(**options).load()


def offsets(frame):
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def test_rows_have_the_names_types_and_values_of_sparks_own_source(spark, our_broker, filled):
    frame = read(spark, our_broker, subscribe=filled, includeHeaders="true")

    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in frame.schema.fields] == [
        ("key", "binary", True),
        ("value", "binary", True),
        ("topic", "string", True),
        ("partition", "int", True),
        ("offset", "bigint", True),
        ("timestamp", "timestamp", True),
        ("timestampType", "int", True),
        ("headers", "array<struct<key:string,value:binary>>", True),
    ]
    rows = {(row.partition, row.offset): row for row in frame.collect()}
    assert len(rows) == 100
    first, eleventh = rows[0, 0], rows[0, 5]
    assert (first.key, first.value, first.topic) == (None, None, filled)
    assert (bytes(eleventh.key), bytes(eleventh.value)) == (b"key-10", b"value-10")
    assert [(header.key, header.value and bytes(header.value)) for header in eleventh.headers] == [
        ("number", b"10"),
        ("none", None),
    ]
    assert rows[1, 0].headers is None
    assert int(eleventh.timestamp.timestamp() * 1000) == STAMP_MS + 5000
    assert {row.timestampType for row in rows.values()} == {0}


def test_a_narrower_schema_gives_only_those_columns_in_that_order(spark, our_broker, filled):
    frame = read(spark, our_broker, schema="partition int, timestamp timestamp, offset long not null", subscribe=filled)

    assert frame.columns == ["partition", "timestamp", "offset"]
    assert offsets(frame) == [(partition, offset) for partition in (0, 1) for offset in range(50)]
    assert read(spark, our_broker, schema="topic string", subscribe=filled).distinct().collect() == [(filled,)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"T": {"0": 45, "1": -2}}', "endingOffsets": '{"T": {"0": -1, "1": 2}}'}, (45, 50, 0, 2)),
        ({"startingTimestamp": str(STAMP_MS + 40_000)}, (40, 50, 40, 50)),
        ({"endingTimestamp": str(STAMP_MS + 3_000)}, (0, 3, 0, 3)),
        (
            {"startingOffsetsByTimestamp": f'{{"T": {{"0": {STAMP_MS + 48_000}, "1": {STAMP_MS}}}}}'},
            (48, 50, 0, 50),
        ),
        ({"endingTimestamp": str(STAMP_MS + 10**9)}, (0, 50, 0, 50)),
    ],
)
def test_a_query_begins_and_ends_where_its_options_say(spark, our_broker, filled, options, expected):
    options = {name: text.replace('"T"', json.dumps(filled)) for name, text in options.items()}
    begin0, end0, begin1, end1 = expected

    assert offsets(read(spark, our_broker, subscribe=filled, **options)) == [
        *((0, offset) for offset in range(begin0, end0)),
        *((1, offset) for offset in range(begin1, end1)),
    ]


def test_assign_reads_only_those_partitions(spark, our_broker, filled):
    frame = read(spark, our_broker, assign=json.dumps({filled: [1]}))

    assert offsets(frame) == [(1, offset) for offset in range(50)]


def test_a_pattern_reads_every_topic_that_matches_as_a_whole(spark, our_broker, filled):
    our_broker.create_topic("batch-filled-not", partitions=1)

    assert read(spark, our_broker, subscribePattern="batch-fill.d").select("topic").distinct().collect() == [(filled,)]


def test_large_partitions_are_split_into_tasks_without_loss_or_repetition(spark, our_broker, filled):
    by_count = read(spark, our_broker, subscribe=filled, minPartitions="5", fetchBytes="1024")
    by_size = read(spark, our_broker, subscribe=filled, maxRecordsPerPartition="7")

    assert by_count.rdd.getNumPartitions() == 5
    assert by_size.rdd.getNumPartitions() == 16
    everything = [(partition, offset) for partition in (0, 1) for offset in range(50)]
    assert offsets(by_count) == everything
    assert offsets(by_size) == everything


def test_a_group_start_reads_from_its_offsets_and_falls_back_where_it_has_none(
    spark, our_broker, our_admin, filled, fresh_name
):
    group = fresh_name("group")
    our_admin.alter_group_offsets(group, {TopicPartition(filled, 0): 44}).raise_if_failed()
    options = {"subscribe": filled, "startingOffsets": "group", "groupId": group}

    assert len(offsets(read(spark, our_broker, **options))) == 6 + 50
    assert len(offsets(read(spark, our_broker, groupFallback="latest", **options))) == 6
    with pytest.raises(Exception) as caught:
        read(spark, our_broker, groupFallback="fail", **options).count()
    assert our_sentence(caught.value) == (
        f"seamark.spark.errors.NoGroupOffset: startingOffsets=group: group {group!r} has no usable offset for "
        f"{filled}-1, and groupFallback=fail is set"
    )
    # Reading commits nothing.
    assert our_admin.list_group_offsets([group])[group] == {TopicPartition(filled, 0): our_admin_offset(44)}


def our_admin_offset(number):
    from seamark.client import Offset

    return Offset(number)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscrib": "a"}, "subscrib: is not an option of this source; did you mean 'subscribe'?"),
        ({"subscribe": "T", "groupIdPrefix": "x"}, "groupIdPrefix: not supported: groups are not generated"),
        (
            {"subscribe": "T", "kafka.bootstrap.server": "x"},
            "kafka.bootstrap.server: is not a configuration key of this client",
        ),
        (
            {"subscribe": "T", "startingOffsets": "soon"},
            "startingOffsets='soon': must be earliest, latest, group or a JSON",
        ),
        ({"subscribe": "T", "startingOffsets": '{"T": {"0": '}, "is not JSON (Expecting value"),
        ({"subscribe": "T", "startingOffsets": "latest"}, "a batch query from the latest offset would read nothing"),
        ({"subscribe": "T", "startingOffsets": '{"T": {"0": 5}}'}, "T-1 is missing; every partition of the query"),
        (
            {"subscribe": "T", "startingOffsets": '{"T": {"0": 51, "1": 0}}'},
            "T-0 holds offsets from 0 up to 50, not 51",
        ),
        ({"subscribe": "T", "startingTimestamp": "1800000000000"}, "T-0 has no record at or after it"),
        ({"subscribe": "no-such-topic"}, "topic 'no-such-topic' does not exist"),
        ({"subscribePattern": "no-such.*"}, "subscribePattern='no-such.*': no topic matches"),
        ({"assign": '{"T": [7]}'}, "assign: topic 'T' has no partition 7"),
        ({"subscribe": "T", "maxOffsetsPerTrigger": "7"}, "the option is for streaming queries"),
        ({"schema": "nope int", "subscribe": "T"}, "schema='nope': unknown column; known: key, value"),
        ({"schema": "value string", "subscribe": "T"}, "schema='value string': value is binary; cast it after load()"),
        ({"schema": "key binary not null", "subscribe": "T"}, "schema='key': can be null"),
    ],
)
def test_a_bad_query_ends_with_one_sentence(spark, our_broker, filled, options, sentence):
    options = {name: text.replace("T", filled, 1) if name != "schema" else text for name, text in options.items()}

    with pytest.raises(Exception) as caught:
        read(spark, our_broker, **options).count()

    assert sentence.replace("T", filled, 1) in our_sentence(caught.value)


def test_an_empty_topic_has_no_rows(spark, our_broker, fresh_name):
    name = fresh_name("empty")
    our_broker.create_topic(name, partitions=2)

    assert read(spark, our_broker, subscribe=name).collect() == []


def test_unreachable_brokers_are_named(spark):
    frame = (
        spark.read.format("seamark")
        .option("kafka.bootstrap.servers", "127.0.0.1:1")
        .option("kafka.default.api.timeout.ms", "1500")
        .option("subscribe", "x")
        .load()
    )

    with pytest.raises(Exception) as caught:
        frame.count()

    assert "no broker could be reached within 1.5 s (127.0.0.1:1:" in our_sentence(caught.value)


def test_workers_of_a_local_session_import_the_installed_pyspark_and_not_sparks_zip(spark):
    import pyspark

    def where(_):
        import sys

        import pyspark

        yield pyspark.__file__, sys.executable

    [found] = spark.sparkContext.parallelize([0], 1).mapPartitions(where).collect()

    assert found == (pyspark.__file__, sys.executable)
