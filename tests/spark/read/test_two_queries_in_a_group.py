"""Two streaming queries that were given the same groupId by mistake, on each broker."""

from __future__ import annotations

import pytest

from seamark.client import Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from tests.support.spark_session import told_by
from tests.support.waiting import eventually


@pytest.fixture
def topic(admin, fresh_name):
    name = fresh_name("shared")
    admin.create_topics([NewTopic(name, 1)]).raise_if_failed()
    return name


def produce(kafka, topic, count):
    with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0)


def start(spark, kafka, topic, directory, **options):
    chosen = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    writer = spark.readStream.format("seamark").options(**chosen).load().writeStream.format("noop")
    return writer.option("checkpointLocation", str(directory)).start()


def commits_of(query):
    """What the newest progress of a query tells about its commits."""
    assert query.exception() is None, query.exception()
    progress = query.lastProgress
    return told_by(progress)["commits"] if progress and progress["sources"][0]["latestOffset"] else ""


def test_the_group_follows_one_query_and_the_other_one_says_why_it_does_not_commit(
    spark, kafka_like, admin, topic, fresh_name, tmp_path
):
    group, seen = fresh_name("group"), []

    def committed():
        found = admin.list_group_offsets([group]).get(group, {})
        seen.append(found[TopicPartition(topic, 0)].offset if found else 0)
        return seen[-1]

    # The second query reads one record at a time: so many take it longer than the first one needs for its next commit.
    produce(kafka_like, topic, 200)
    first = start(spark, kafka_like, topic, tmp_path / "first", groupId=group)
    try:
        eventually(lambda: committed() == 200, "the first query's commit")
        second = start(spark, kafka_like, topic, tmp_path / "second", groupId=group, maxOffsetsPerTrigger="1")
        try:
            eventually(lambda: commits_of(second).startswith("held back: the group is ahead"), "the second query")
            produce(kafka_like, topic, 30)
            eventually(lambda: committed() == 230, "the first query's next commit")
            eventually(lambda: commits_of(second).startswith("conflict:") and committed(), "the conflict")
            told = commits_of(second)
        finally:
            second.stop()
        assert commits_of(first) == "ok"
    finally:
        first.stop()
    assert f"{topic}-0 of group {group!r} is at 230, committed by query " in told
    assert "Give each query its own groupId" in told
    assert seen == sorted(seen)

    # Its checkpoint decides: restarted, it reads on and takes the group over once it has passed it.
    produce(kafka_like, topic, 5)
    restarted = start(spark, kafka_like, topic, tmp_path / "second", groupId=group)
    try:
        eventually(lambda: committed() == 235, "the second query's commit")
    finally:
        restarted.stop()
