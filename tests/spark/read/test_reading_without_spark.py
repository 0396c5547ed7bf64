"""The source's own parts on the embedded broker, without a JVM: what the driver asks, and what a task reads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from seamark.client import Consumer, Offset, Producer, TopicPartition
from seamark.client.errors import BrokerError
from seamark.spark.errors import RecordsLost, TopicRecreated
from seamark.spark.read.cluster import FoundTopic
from seamark.spark.read.kafka_cluster import KafkaCluster
from seamark.spark.read.options import ReadOptions
from seamark.spark.read.ranges import OffsetRange
from seamark.spark.read.stream_core import StreamCore
from seamark.spark.read.task import idle_count, read_range
from seamark.wire.protocol.error_codes import ErrorCode

STAMP_MS = 1_700_000_000_000
SCHEMA = "partition int, offset bigint, topic string"


def options(broker, **given):
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribePattern": ".*", **given}
    return ReadOptions.of(given, is_stream=True)


@pytest.fixture
def topic(our_broker, fresh_name):
    name = fresh_name("parts")
    our_broker.create_topic(name, partitions=2)
    with Producer(bootstrap_servers=our_broker.bootstrap) as producer:
        for number in range(40):
            producer.send(name, b"%d" % number, partition=0, timestamp_ms=STAMP_MS + 1000 * number)
    return name


@pytest.fixture
def cluster(our_broker):
    made = KafkaCluster(options(our_broker).client)
    yield made
    made.close()


def schema(text=SCHEMA):
    from pyspark.sql.types import (
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    kinds = {
        "int": IntegerType,
        "bigint": LongType,
        "string": StringType,
        "binary": BinaryType,
        "timestamp": TimestampType,
    }
    return StructType([StructField(name, kinds[kind]()) for name, kind in (each.split() for each in text.split(", "))])


def read(broker, wanted, text=SCHEMA, **given):
    return [row for batch in read_range(wanted, options(broker, **given), schema(text)) for row in batch.to_pylist()]


def whole(cluster, topic, begin=0, end=40):
    return OffsetRange(TopicPartition(topic, 0), cluster.topics([topic])[topic].topic_id, begin, end)


def test_topics_ends_and_times_are_told(cluster, topic):
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    found = cluster.topics([topic, "no-such-topic"])

    assert list(found) == [topic]
    assert found[topic].partitions == (0, 1)
    assert len(found[topic].topic_id) == 32
    assert isinstance(cluster.topics(None)[topic], FoundTopic)
    assert cluster.log_ends([first, second]) == {first: 40, second: 0}
    assert cluster.log_starts([first, TopicPartition(topic, 9)]) == {first: 0}
    assert cluster.offsets_at({first: STAMP_MS + 5500, second: 1}) == {first: 6, second: None}
    assert cluster.unread_times({first: 30}) == {first: STAMP_MS + 30_000}
    assert cluster.unread_times({second: 0}) == {}


def test_new_partitions_are_seen(our_broker, our_admin, cluster, topic):
    assert cluster.log_ends([TopicPartition(topic, 0)])
    our_admin.create_partitions({topic: 3}).raise_if_failed()

    assert cluster.topics([topic])[topic].partitions == (0, 1, 2)
    assert cluster.log_ends([TopicPartition(topic, 2)]) == {TopicPartition(topic, 2): 0}


def test_commits_are_stored_for_groups_without_members_only(our_broker, cluster, topic, fresh_name):
    group, partition = fresh_name("group"), TopicPartition(topic, 0)
    assert not cluster.group_state(group).is_active
    assert cluster.committed(group, [partition]) == {}
    assert cluster.commit(group, {partition: Offset(7, "by us")}) == {}
    assert cluster.committed(group, [partition]) == {partition: Offset(7, "by us")}

    with Consumer(bootstrap_servers=our_broker.bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.05)
        state = cluster.group_state(group)
        assert (state.is_active, state.members) == (True, 1)
        (error,) = cluster.commit(group, {partition: Offset(9)}).values()
        assert isinstance(error, BrokerError)
        assert error.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.committed(group, [partition])[partition].offset == 7


def test_a_range_is_read_exactly_and_the_connection_is_kept(our_broker, cluster, topic):
    before = idle_count()

    rows = read(our_broker, whole(cluster, topic, 11, 34))

    assert [row["offset"] for row in rows] == list(range(11, 34))
    assert {(row["partition"], row["topic"]) for row in rows} == {(0, topic)}
    assert idle_count() in (before, before + 1)
    kept = idle_count()
    assert [row["value"] for row in read(our_broker, whole(cluster, topic, 0, 2), "value binary")] == [b"0", b"1"]
    assert idle_count() == kept
    # A read that is given up does not hand its connection on.
    unfinished = read_range(whole(cluster, topic), options(our_broker), schema())
    next(unfinished)
    unfinished.close()
    assert idle_count() == kept - 1


def test_deleted_offsets_are_an_error_or_are_skipped(our_broker, our_admin, cluster, topic):
    wanted = whole(cluster, topic)
    our_admin.delete_records({TopicPartition(topic, 0): 25}).raise_if_failed()

    with pytest.raises(RecordsLost, match=f"offsets 0 to 25 of {topic}-0 were deleted before they were read"):
        read(our_broker, wanted)
    assert [row["offset"] for row in read(our_broker, wanted, failOnDataLoss="false")] == list(range(25, 40))


def test_a_range_beyond_the_end_of_the_log_names_the_partition(our_broker, cluster, topic):
    with pytest.raises(RecordsLost, match=f"the log of {topic}-0 ends before the planned offset 99"):
        read(our_broker, whole(cluster, topic, 60, 99))


def test_a_topic_made_anew_is_not_read_as_the_old_one(our_broker, cluster, topic):
    wanted = whole(cluster, topic)
    read(our_broker, wanted)  # the connection that is kept knows the old topic
    our_broker.faults.recreate_topic(topic)
    with Producer(bootstrap_servers=our_broker.bootstrap) as producer:
        for number in range(50):
            producer.send(topic, b"new %d" % number, partition=0)

    with pytest.raises(TopicRecreated):
        read(our_broker, wanted)


def test_a_group_without_permission_is_known_when_the_query_starts(our_broker, topic, fresh_name):
    given = options(our_broker, groupId=fresh_name("group"), startingOffsets="earliest")
    core = StreamCore(given, KafkaCluster(given.client))
    try:
        our_broker.faults.fail("DescribeGroups", "GROUP_AUTHORIZATION_FAILED", times=1)
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
            core.initial()
        assert core.initial().is_initial
    finally:
        core.close()


# What the process of a streaming source does before the first task of a query can begin.
UNTIL_PLANNED = """
import sys
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import IntegerType, StructType
from seamark.spark.source import SeamarkDataSource

bootstrap, topic = sys.argv[1:]
given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
reader = SeamarkDataSource(given).streamReader(StructType().add("partition", IntegerType()))
reader.prepareForTriggerAvailableNow()
start = reader.initialOffset()
end = reader.latestOffset(start, ReadAllAvailable())
reader.reportLatestOffset()
print(len(reader.partitions(start, end)))
reader.stop()
print(*sys.modules, sep="\\n")
"""


def test_a_stream_loads_only_what_planning_needs_before_its_first_task(our_broker, topic):
    command = [sys.executable, "-c", UNTIL_PLANNED, our_broker.bootstrap, topic]

    planned, *loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()

    assert planned == "1"
    assert {"seamark.spark.read.kafka_cluster", "seamark.wire.protocol.messages.list_offsets"} <= set(loaded)
    for_tasks_or_groups = {
        "numba", "seamark.client.admin.groups", "seamark.client.fetch.ranges", "seamark.client.admin.record_times",
        "seamark.spark.read.task", "seamark.wire.protocol.messages.fetch", "seamark.wire.protocol.messages.join_group",
    }  # fmt: skip
    assert for_tasks_or_groups.isdisjoint(loaded)
