"""``seamark spark-checkpoint`` on checkpoints that Spark itself wrote, from its own Kafka source and from ours."""

from __future__ import annotations

import json

import pytest

from seamark.client import Admin, Offset, Producer, TopicPartition
from seamark.client.admin.types import NewTopic
from tests.support.commands import command_runner


@pytest.fixture
def seamark(capsys, monkeypatch, tmp_path, apache_kafka):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEAMARK_BOOTSTRAP", apache_kafka.bootstrap)
    run = command_runner(capsys, monkeypatch)
    return lambda *arguments: run("spark-checkpoint", *map(str, arguments))


def produce(bootstrap, topic, count):
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % 2)


def run(spark, form, bootstrap, topic, checkpoint, **options):
    """Read what there is, in batches of 10; the answer is how many rows there were."""
    frame = (
        spark.readStream.format(form)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "10")
        .options(**options)
        .load()
    )
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(250)
    return sum(progress["numInputRows"] for progress in query.recentProgress)


@pytest.mark.parametrize("form", ["kafka", "seamark"])
def test_a_query_hands_its_place_to_a_group_and_a_group_to_the_next_query(
    spark_with_connector, apache_kafka, seamark, fresh_name, tmp_path, form
):
    spark, bootstrap = spark_with_connector, apache_kafka.bootstrap
    topic, group = fresh_name(f"place-{form}"), fresh_name("group")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 2, 1)]).raise_if_failed()
        produce(bootstrap, topic, 30)
        assert run(spark, form, bootstrap, topic, tmp_path / "first") == 30
        produce(bootstrap, topic, 8)

        shown = json.loads(seamark("show", tmp_path / "first", "--json").out)
        assert [batch["state"] for batch in shown["batches"]] == ["done"] * 3
        assert [(row["offset"], row["log_end"], row["lag"]) for row in shown["offsets"]] == [(15, 19, 4)] * 2

        applied = seamark("to-group", tmp_path / "first", group, "--apply")
        assert (applied.code, "2 changed and verified" in applied.err) == (0, True), applied.err
        committed = admin.list_group_offsets([group])[group]
        assert {each: offset.offset for each, offset in committed.items()} == {
            TopicPartition(topic, 0): 15,
            TopicPartition(topic, 1): 15,
        }
        # Somebody works on a little with the group, and a new query takes over from there.
        admin.alter_group_offsets(group, {TopicPartition(topic, 1): Offset(17)}).raise_if_failed()
    starting = seamark("from-group", group).out.strip()
    assert run(spark, form, bootstrap, topic, tmp_path / "second", startingOffsets=starting) == 6
