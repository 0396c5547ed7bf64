"""Streaming queries over the embedded broker: group commits, restarts, policies, progress, and refusals."""

from __future__ import annotations

import json
import logging
import time
import urllib.request

import pytest

from seamark.client import Consumer, Producer, TopicPartition
from tests.support.spark_session import our_sentence, told_by
from tests.support.waiting import eventually


@pytest.fixture
def topic(our_broker, fresh_name):
    name = fresh_name("stream")
    our_broker.create_topic(name, partitions=2)
    return name


def produce(broker, topic, count, first=0):
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(first, first + count):
            producer.send(topic, b"%d" % number, partition=number % 2)


def stream(spark, broker, topic, **options):
    chosen = {"subscribe": topic, "startingOffsets": "earliest", "kafka.bootstrap.servers": broker.bootstrap, **options}
    return spark.readStream.format("seamark").options(**chosen).load()


def start(frame, directory, **trigger):
    """Rows go to Parquet, whose sink writes each batch once."""
    writer = frame.selectExpr("cast(value as string) value", "partition", "offset").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(directory / "checkpoint")).option("path", str(directory / "out"))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def run(frame, directory, **trigger):
    query = start(frame, directory, **trigger)
    query.awaitTermination()
    return query


def values(spark, directory):
    return sorted(int(row.value) for row in spark.read.parquet(str(directory / "out")).collect())


def committed(admin, group):
    found = admin.list_group_offsets([group])
    return {partition.partition: offset.offset for partition, offset in found.get(group, {}).items()}


def test_available_now_leaves_the_group_at_the_end_of_its_last_batch(
    spark, our_broker, our_admin, topic, fresh_name, tmp_path
):
    group = fresh_name("group")
    produce(our_broker, topic, 20)

    options = {"groupId": group, "maxOffsetsPerTrigger": "6", "kafka.sasl.password": "hunter2"}

    query = run(stream(spark, our_broker, topic, **options), tmp_path)

    assert values(spark, tmp_path) == list(range(20))
    assert len([progress for progress in query.recentProgress if progress["numInputRows"]]) >= 3
    assert committed(our_admin, group) == {0: 10, 1: 10}
    (offset, *_) = our_admin.list_group_offsets([group])[group].values()
    metadata = json.loads(offset.metadata)
    written = json.loads((tmp_path / "checkpoint" / "offsets" / str(metadata["batch"])).read_text().splitlines()[2])
    assert metadata["query"] == written["query"]
    assert metadata["topic"] == written["topics"][topic]["id"]

    stored = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert not any(b"hunter2" in content for content in stored)
    assert "hunter2" not in str(query.recentProgress)

    # Another checkpoint of the same group goes on where the group is.
    produce(our_broker, topic, 4, first=20)
    second = tmp_path / "second"
    run(stream(spark, our_broker, topic, groupId=group, startingOffsets="group"), second)
    assert values(spark, second) == [20, 21, 22, 23]
    assert committed(our_admin, group) == {0: 12, 1: 12}


def test_a_query_that_runs_once_is_caught_up_by_the_next_run(spark, our_broker, our_admin, topic, fresh_name, tmp_path):
    group = fresh_name("group")
    produce(our_broker, topic, 6)
    frame = stream(spark, our_broker, topic, groupId=group)
    run(frame, tmp_path, once=True)
    assert committed(our_admin, group) == {}

    run(frame, tmp_path)

    assert committed(our_admin, group) == {0: 3, 1: 3}
    assert values(spark, tmp_path) == list(range(6))


def test_the_listener_commits_and_tells_without_waiting_for_the_next_trigger(
    spark, our_broker, our_admin, topic, fresh_name, tmp_path, caplog
):
    import seamark.spark

    group = fresh_name("group")
    produce(our_broker, topic, 6)
    listener = seamark.spark.register(
        spark, commit_with={"kafka.bootstrap.servers": our_broker.bootstrap}, metrics_port=0
    )
    try:
        with caplog.at_level(logging.INFO, "seamark.spark"):
            query = start(stream(spark, our_broker, topic, groupId=group), tmp_path, processingTime="1 hour")
            try:
                eventually(lambda: committed(our_admin, group) == {0: 3, 1: 3}, "the commit")
                (offset, *_) = our_admin.list_group_offsets([group])[group].values()
                assert json.loads(offset.metadata)["query"] == str(query.id)
                eventually(lambda: "query" in caplog.text, "a line per batch")
                with urllib.request.urlopen(f"http://127.0.0.1:{listener.page.port}/metrics") as page:
                    metrics = page.read().decode()
            finally:
                query.stop()
    finally:
        seamark.spark.register(spark)
    assert f"query {query.id} batch 0: 6 rows of {topic}; 0 records behind; group {group}: ok" in caplog.text
    labels = f'query="{query.id}",group="{group}",topic="{topic}",partition="0"'
    assert f"seamark_spark_lag_records{{{labels}}} 0" in metrics


def test_progress_has_the_lag_in_records_and_milliseconds(spark, our_broker, topic, fresh_name, tmp_path):
    produce(our_broker, topic, 20)

    query = run(stream(spark, our_broker, topic, groupId=fresh_name("g"), maxOffsetsPerTrigger="4"), tmp_path)

    first, last = query.recentProgress[0], query.recentProgress[-1]
    told = told_by(first)
    assert (told["lag_records"], told["partitions"]) == (16, {topic: {"0": 8, "1": 8}})
    assert 0 < told["lag_ms"] < 120_000
    told = told_by(last)
    assert (told["lag_records"], told["lag_ms"], told["commits"]) == (0, 0, "ok")


def test_an_active_group_is_refused_or_left_alone(spark, our_broker, our_admin, topic, fresh_name, tmp_path):
    group = fresh_name("group")
    produce(our_broker, topic, 4)
    with Consumer(bootstrap_servers=our_broker.bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.05) is not None and consumer.assignment(), "an assignment")
        with pytest.raises(Exception) as caught:
            run(stream(spark, our_broker, topic, groupId=group), tmp_path)
        assert "the group is Stable with 1 member, and Kafka accepts commits from members only" in our_sentence(
            caught.value
        )

        query = run(stream(spark, our_broker, topic, groupId=group, onActiveGroup="warn"), tmp_path / "warn")

        told = told_by(query.lastProgress)
        assert told["commits"] == "off: the group is Stable with 1 member"
        assert values(spark, tmp_path / "warn") == [0, 1, 2, 3]
        assert committed(our_admin, group) == {}


def test_a_topic_made_anew_stops_the_query_or_restarts_it(spark, our_broker, our_admin, topic, fresh_name, tmp_path):
    group = fresh_name("group")
    produce(our_broker, topic, 6)
    run(stream(spark, our_broker, topic, groupId=group), tmp_path)
    our_broker.faults.recreate_topic(topic)
    produce(our_broker, topic, 10, first=100)

    with pytest.raises(Exception) as caught:
        run(stream(spark, our_broker, topic, groupId=group), tmp_path)
    assert f"topic {topic!r} was deleted and recreated" in our_sentence(caught.value)

    run(stream(spark, our_broker, topic, groupId=group, onTopicRecreated="restart"), tmp_path)
    assert values(spark, tmp_path) == [*range(6), *range(100, 110)]
    assert committed(our_admin, group) == {0: 5, 1: 5}


def test_records_deleted_before_they_were_read_obey_fail_on_data_loss(spark, our_broker, our_admin, topic, tmp_path):
    produce(our_broker, topic, 4)
    run(stream(spark, our_broker, topic), tmp_path)
    produce(our_broker, topic, 10, first=4)
    our_admin.delete_records({TopicPartition(topic, 0): 5}).raise_if_failed()

    with pytest.raises(Exception) as caught:
        run(stream(spark, our_broker, topic), tmp_path)
    assert f"offsets 2 to 5 of {topic}-0 were deleted before they were read" in our_sentence(caught.value)

    run(stream(spark, our_broker, topic, failOnDataLoss="false"), tmp_path)
    assert values(spark, tmp_path) == [0, 1, 2, 3, 5, 7, 9, 10, 11, 12, 13]


def test_asynchronous_progress_is_refused_with_a_group(spark, our_broker, topic, fresh_name, tmp_path):
    frame = stream(spark, our_broker, topic, groupId=fresh_name("group"))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.option("asyncProgressTrackingEnabled", "true").start()
    try:
        for number in range(100):
            if query.exception() is not None:
                break
            produce(our_broker, topic, 2, first=2 * number)
            time.sleep(0.2)
    finally:
        query.stop()

    assert query.exception() is not None
    assert "asyncProgressTrackingEnabled cannot be combined with groupId" in our_sentence(query.exception())


def test_a_checkpoint_of_another_topic_is_refused(spark, our_broker, topic, fresh_name, tmp_path):
    other = fresh_name("other")
    our_broker.create_topic(other, partitions=1)
    produce(our_broker, topic, 2)
    run(stream(spark, our_broker, topic), tmp_path)

    with pytest.raises(Exception) as caught:
        run(stream(spark, our_broker, other), tmp_path)

    assert f"the checkpoint is of {topic}, but the query reads {other}" in our_sentence(caught.value)


def test_an_option_for_batches_is_refused_in_a_stream(spark, our_broker, topic, tmp_path):
    with pytest.raises(Exception) as caught:
        run(stream(spark, our_broker, topic, endingOffsets="latest"), tmp_path)

    assert "endingOffsets: a streaming query has no end" in our_sentence(caught.value)
