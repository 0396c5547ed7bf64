"""The lake, filled from real brokers, says row for row what was done on them; runs add up; refusals are sentences."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from seamark import Broker
from seamark.client import Admin, Consumer, Offset, Producer, TopicPartition
from seamark.spark.lake.errors import TopicNotReadable
from seamark.spark.lake.fill import job
from seamark.spark.lake.tables.lake import Lake, LakeError

# A member that commits and is gone without a word: what a crash looks like to the coordinator.
CRASHING = """
import os, sys
from seamark.client import Consumer, Offset, TopicPartition
consumer = Consumer(bootstrap_servers=sys.argv[1], group_id=sys.argv[3], session_timeout_ms=6000,
                    heartbeat_interval_ms=500, client_id="crasher", auto_offset_reset="earliest")
consumer.subscribe([sys.argv[2]])
while not consumer.assignment():
    consumer.poll(timeout=0.2)
consumer.commit({TopicPartition(sys.argv[2], 0): Offset(4)})
os._exit(1)
"""


class Story:
    """Does things to one group and writes down what the lake has to say about them."""

    def __init__(self, kafka, admin, topic, group):
        self.kafka, self.admin, self.topic, self.group = kafka, admin, topic, group
        # (partition, offset, metadata, origin, client of the owner)
        self.done = []

    def at(self, partition):
        return TopicPartition(self.topic, partition)

    def member_commits(self, *commits):
        """A member of ours joins, commits and leaves."""
        settings = {"bootstrap_servers": self.kafka.bootstrap, "group_id": self.group, "client_id": "ours"}
        with Consumer(**settings, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
            consumer.subscribe([self.topic])
            end = time.monotonic() + 30
            while len(consumer.assignment()) < 2:
                assert time.monotonic() < end, "the member was given nothing"
                consumer.poll(timeout=0.1)
            for partition, offset, metadata in commits:
                consumer.commit({self.at(partition): Offset(offset, metadata)})
                self.done.append((partition, offset, metadata, "member", "ours"))

    def confluent_commits(self, *commits):
        settings = {"bootstrap.servers": self.kafka.bootstrap, "group.id": self.group, "client.id": "confluent"}
        consumer = ConfluentConsumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
        try:
            consumer.subscribe([self.topic])
            end = time.monotonic() + 30
            while not consumer.assignment():
                assert time.monotonic() < end, "the member was given nothing"
                consumer.poll(0.1)
            for partition, offset in commits:
                consumer.commit(offsets=[ConfluentPartition(self.topic, partition, offset)], asynchronous=False)
                self.done.append((partition, offset, "", "member", "confluent"))
        finally:
            consumer.close()

    def reset(self, partition, offset):
        end = time.monotonic() + 20
        while (refused := self.admin.alter_group_offsets(self.group, {self.at(partition): Offset(offset)}).errors) and (
            time.monotonic() < end
        ):
            time.sleep(0.1)
        assert not refused
        self.done.append((partition, offset, "", "outside", None))

    def forget(self, partition):
        self.admin.delete_group_offsets(self.group, [self.at(partition)]).raise_if_failed()
        self.done.append((partition, None, None, "outside", None))

    def delete(self, *partitions):
        self.admin.delete_groups([self.group]).raise_if_failed()
        self.done.extend((partition, None, None, "outside", None) for partition in partitions)


def rows_of(lake, spark, table, group):
    found = lake.read(spark, table).where(f"group = '{group}'").orderBy("offsets_partition", "offsets_offset").collect()
    return [row.asDict(recursive=True) for row in found]


def told(rows):
    return [(row["partition"], row["offset"], row["metadata"], row["origin"], row["owner_client"]) for row in rows]


def chained(rows):
    """Previous offsets and deltas worked out by hand from the rows' own order."""
    last, wanted = {}, []
    for row in rows:
        previous = last.get(row["partition"])
        both = previous is not None and row["offset"] is not None
        wanted.append((previous, row["offset"] - previous if both else None))
        last[row["partition"]] = row["offset"]
    return wanted


def everything(lake, spark, table):
    """All rows of a table as sorted texts."""
    return sorted(row.asDict(recursive=True).__repr__() for row in lake.read(spark, table).collect())


@pytest.fixture
def topic(admin, fresh_name, kafka_like):
    from seamark.client.admin.types import NewTopic

    name = fresh_name("lake")
    admin.create_topics([NewTopic(name, 2)]).raise_if_failed()
    with Producer(bootstrap_servers=kafka_like.bootstrap) as producer:
        for number in range(20):
            producer.send(name, b"%d" % number, partition=number % 2)
    return name


# covers: F4, F29
def test_the_lake_says_what_was_done(kafka_like, admin, topic, fresh_name, spark, tmp_path):
    crashed = fresh_name("crashed")
    arguments = [sys.executable, "-c", CRASHING, kafka_like.bootstrap, topic, crashed]
    crash = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    story = Story(kafka_like, admin, topic, fresh_name("group"))
    config = {"bootstrap.servers": kafka_like.bootstrap}
    story.member_commits((0, 3, "first"), (1, 5, ""), (0, 7, ""))
    story.confluent_commits((0, 8), (1, 6))

    first = job.run(spark, tmp_path / "lake", config=config)
    story.reset(0, 2)
    story.forget(1)
    story.member_commits((1, 9, "later"))
    story.delete(0, 1)
    crash.wait(60)
    _until_empty(admin, crashed)
    second = job.run(spark, tmp_path / "lake", config=config)

    lake = Lake.open(tmp_path / "lake")
    assert second.version > first.version
    rows = rows_of(lake, spark, "commits", story.group)
    # The two tombstones of the deleted group may come in either order.
    assert told(rows)[:-2] == story.done[:-2]
    assert sorted(told(rows)[-2:], key=str) == sorted(story.done[-2:], key=str)
    assert [(row["previous_offset"], row["delta"]) for row in rows] == chained(rows)
    assert all(row["tombstone"] == (row["offset"] is None) for row in rows)
    assert all(row["inferred"] and row["complete"] for row in rows)
    assert all(abs(row["commit_time"].timestamp() - time.time()) < 600 for row in rows if not row["tombstone"])
    _check_generations(rows_of(lake, spark, "generations", story.group))
    _check_crash(rows_of(lake, spark, "commits", crashed), rows_of(lake, spark, "generations", crashed))

    # Two runs have what one has.
    job.run(spark, tmp_path / "whole", config=config)
    whole = Lake.open(tmp_path / "whole")
    for table in ("commits", "generations"):
        names = f"('{story.group}', '{crashed}')"
        one, two = (
            sorted(map(repr, each.read(spark, table).where(f"group in {names}").collect())) for each in (lake, whole)
        )
        assert one == two


def _until_empty(admin, group):
    end = time.monotonic() + 40
    while time.monotonic() < end:
        if admin.describe_groups([group])[group].state == "Empty":
            return
        time.sleep(0.2)
    raise AssertionError(f"{group} still has its crashed member")


def _check_generations(rows):
    numbers = [row["generation"] for row in rows if not row["tombstone"]]
    assert numbers == sorted(numbers)
    assert rows[-1]["tombstone"]
    joined = [member for row in rows for member in row["joined"]]
    gone = [member for row in rows for member in row["gone"]]
    # Three members came one after another, and each of them left.
    assert len(joined) == 3
    assert sorted(joined) == sorted(gone)
    full = [row for row in rows if row["members"]]
    assert {member["client"] for row in full for member in row["members"]} == {"ours", "confluent"}
    assert all(
        sorted(part for each in row["members"][0]["assigned"] for part in each["partitions"]) == [0, 1] for row in full
    )


def _check_crash(commits, generations):
    assert [(row["offset"], row["origin"], row["owner_client"]) for row in commits] == [(4, "member", "crasher")]
    assert generations[-1]["members"] == []
    before = generations[-2]
    assert generations[-1]["gone"] == [before["members"][0]["member"]]
    # The session timeout passed between the member's last sign of life and the empty generation.
    waited = (generations[-1]["time"] - before["time"]).total_seconds()
    assert waited > 4


def test_a_run_without_anything_new_adds_nothing(our_broker, spark, tmp_path, fresh_name):
    group = fresh_name("group")
    config = {"bootstrap.servers": our_broker.bootstrap}
    topic = fresh_name("again")
    our_broker.create_topic(topic)
    with Admin(bootstrap_servers=our_broker.bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): Offset(0)}).raise_if_failed()
    job.run(spark, tmp_path / "lake", config=config)
    before = everything(Lake.open(tmp_path / "lake"), spark, "commits")

    again = job.run(spark, tmp_path / "lake", config=config)

    assert (again.records, dict(again.rows)) == (0, {})
    assert everything(Lake.open(tmp_path / "lake"), spark, "commits") == before


def test_a_cluster_on_which_nobody_has_committed_gives_an_empty_lake(spark, tmp_path):
    with Broker() as broker:
        summary = job.run(spark, tmp_path / "lake", config={"bootstrap.servers": broker.bootstrap})

    assert summary.records == 0
    assert Lake.open(tmp_path / "lake").read(spark, "commits").count() == 0


def test_an_error_in_a_task_is_one_sentence_and_publishes_nothing(spark, tmp_path, our_broker, fresh_name):
    config = {"bootstrap.servers": our_broker.bootstrap}
    topic = fresh_name("task-error")
    our_broker.create_topic(topic)
    with Admin(bootstrap_servers=our_broker.bootstrap) as admin:
        admin.alter_group_offsets(fresh_name("group"), {TopicPartition(topic, 0): Offset(0)}).raise_if_failed()
    fault = our_broker.faults.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None)
    try:
        with pytest.raises(TopicNotReadable) as refused:
            job.run(spark, tmp_path / "lake", config=config)
    finally:
        fault.remove()
    assert "\n" not in str(refused.value)
    assert Lake.open(tmp_path / "lake").version == 0
    assert job.run(spark, tmp_path / "lake", config=config).records > 0


def test_the_lake_of_another_cluster_is_refused_before_anything_is_read(spark, tmp_path, our_broker):
    Lake.create(tmp_path / "lake", "another")

    with pytest.raises(LakeError, match="is of cluster another, not of"):
        job.run(spark, tmp_path / "lake", config={"bootstrap.servers": our_broker.bootstrap})


def test_a_copied_log_directory_gives_the_rows_that_the_topic_gives(spark, tmp_path):
    with Broker(data=tmp_path / "broker", settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("t", partitions=2)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            for number in range(30):
                place = TopicPartition("t", number % 2)
                admin.alter_group_offsets(f"group-{number % 5}", {place: Offset(number)}).raise_if_failed()
        job.run(spark, tmp_path / "topic", config={"bootstrap.servers": broker.bootstrap})
    home = next(path.parent for path in (tmp_path / "broker").rglob("__consumer_offsets-*"))

    job.run(spark, tmp_path / "copied", source=str(home))

    topic, copied = Lake.open(tmp_path / "topic"), Lake.open(tmp_path / "copied")
    assert everything(copied, spark, "commits") == everything(topic, spark, "commits")
    assert len(everything(copied, spark, "commits")) == 30
    assert job.run(spark, tmp_path / "copied", source=str(home)).records == 0
