"""What an operator sees with Kafka's own tool, on Apache Kafka: nothing for Spark's source, the lag for this one.

Also the way over: a query of Spark's source changes its format name and keeps options and checkpoint.
"""

from __future__ import annotations

import pytest

from seamark.client import Admin, Producer
from seamark.client.admin.types import NewTopic

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def topic(apache_kafka, fresh_name):
    name = fresh_name("visible")
    with Admin(bootstrap_servers=apache_kafka.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2)]).raise_if_failed()
    produce(apache_kafka, name, 500)
    return name


def produce(kafka, topic, count):
    with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % 2)


def run(spark, source, kafka, topic, directory, **options):
    chosen = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format(source).options(**chosen).load().select("partition", "offset")
    writer = frame.writeStream.format("parquet").option("path", str(directory / "out"))
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


def described(kafka, group):
    answer = kafka.tool(TOOL, "--bootstrap-server", kafka.bootstrap, "--describe", "--group", group)
    return answer.stdout + answer.stderr


def lags(text, topic):
    """Partition: (current offset, log end, lag), from the tool's table."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 5 and words[1] == topic:
            found[int(words[2])] = tuple(int(word) for word in words[3:6])
    return found


def test_kafkas_tool_shows_the_lag_of_a_query_that_moved_over(
    spark_with_connector, apache_kafka, topic, fresh_name, tmp_path
):
    spark, group = spark_with_connector, fresh_name("group")
    run(spark, "kafka", apache_kafka, topic, tmp_path, **{"kafka.group.id": group})
    assert lags(described(apache_kafka, group), topic) == {}

    # The same checkpoint and options; only the format's name changes, and groupId says where to commit.
    produce(apache_kafka, topic, 100)
    run(spark, "seamark", apache_kafka, topic, tmp_path, **{"kafka.group.id": group}, groupId=group)
    produce(apache_kafka, topic, 60)

    text = described(apache_kafka, group)
    assert lags(text, topic) == {0: (300, 330, 30), 1: (300, 330, 30)}, text
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.partition, row.offset) for row in rows) == [
        (partition, offset) for partition in (0, 1) for offset in range(300)
    ]
