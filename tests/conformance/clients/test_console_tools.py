"""Kafka's command line tools, from its own jars, do their work with our broker; its formatter reads our offsets."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from seamark import Broker
from seamark.wire.offsets.offsets_topic import OffsetCommitEntry, decode_entry
from tests.conformance.differential.group_scripts import commit_fields
from tests.conformance.differential.script import Recorder
from tests.support.broker_driver import fresh_name
from tests.support.java import short_lived_java, utf_8_environment
from tests.support.maven import class_path, kafka_jars

OFFSETS_TOPIC = "__consumer_offsets"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


def tool(broker: Broker, name: str, *args: str, stdin: str = "", ok: bool = True) -> str:
    """What a class of Kafka's tools prints."""
    command = short_lived_java(
        class_path(kafka_jars()),
        f"org.apache.kafka.tools.{name}",
        ["--bootstrap-server", broker.bootstrap, *args],
    )
    run = subprocess.run(
        command, env=utf_8_environment(), input=stdin, capture_output=True, encoding="utf-8", timeout=90, check=False
    )
    assert (run.returncode == 0) is ok, run.stdout + run.stderr
    return run.stdout


def json_values(text: str) -> Iterator[Any]:
    """Values that stand one behind the other; the formatter separates them by nothing."""
    decoder, position = json.JSONDecoder(), text.find("{")
    while position >= 0:
        value, end = decoder.raw_decode(text, position)
        yield value
        position = text.find("{", end)


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    recorder = Recorder(broker.bootstrap)
    try:
        recorder.coordinate(group)
        answer = recorder.quietly("OffsetCommit", 8, **commit_fields(group, topic, 8, 0, 1, offset=offset))
        assert [each.error_code for each in answer.topics[0].partitions] == [0, 0]
    finally:
        recorder.close()


@pytest.mark.java
def test_topics_are_made_described_widened_and_deleted(broker):
    topic = fresh_name()
    said = tool(broker, "TopicCommand", "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=9")
    assert f"Created topic {topic}." in said
    described = tool(broker, "TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 2" in described
    assert "retention.ms=9" in described
    tool(broker, "TopicCommand", "--alter", "--topic", topic, "--partitions", "3")
    assert "PartitionCount: 3" in tool(broker, "TopicCommand", "--describe", "--topic", topic)
    tool(broker, "TopicCommand", "--delete", "--topic", topic)
    assert topic not in tool(broker, "TopicCommand", "--list").split()
    tool(broker, "TopicCommand", "--delete", "--topic", topic, ok=False)


@pytest.mark.java
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_console_producer_writes_and_the_console_consumer_reads(broker, codec):
    topic = fresh_name()
    broker.create_topic(topic, 1)
    lines = [f"line {number} ü" for number in range(50)]
    tool(broker, "ConsoleProducer", "--topic", topic, "--compression-codec", codec, stdin="\n".join(lines))
    group = fresh_name()
    consumer = ["--topic", topic, "--group", group, "--from-beginning", "--timeout-ms", "20000"]
    read = tool(broker, "consumer.ConsoleConsumer", *consumer, "--max-messages", "30")
    assert read.splitlines() == lines[:30]
    described = tool(broker, "consumer.group.ConsumerGroupCommand", "--describe", "--group", group)
    row = next(line.split() for line in described.splitlines() if line.startswith(group))
    assert row[2:5] == ["0", "30", "50"]
    rest = tool(broker, "consumer.ConsoleConsumer", *consumer, "--max-messages", "20")
    assert rest.splitlines() == lines[30:]


@pytest.mark.java
def test_the_verifiable_producer_and_consumer_agree(broker):
    topic = fresh_name()
    broker.create_topic(topic, 3)
    produced = tool(broker, "VerifiableProducer", "--topic", topic, "--max-messages", "500")
    acknowledged = [json.loads(line) for line in produced.splitlines() if '"producer_send_success"' in line]
    assert len(acknowledged) == 500
    consumed = tool(
        broker, "VerifiableConsumer", "--topic", topic, "--group-id", fresh_name(), "--max-messages", "500",
        "--reset-policy", "earliest",
    )  # fmt: skip
    told = [json.loads(line) for line in consumed.splitlines() if line.startswith("{")]
    assert sum(line["count"] for line in told if line["name"] == "records_consumed") == 500
    committed: dict[int, int] = {}
    for line in told:
        if line["name"] == "offsets_committed":
            assert line["success"]
            committed |= {each["partition"]: each["offset"] for each in line["offsets"]}
    assert sum(committed.values()) == 500


@pytest.mark.java
def test_kafkas_own_formatter_reads_our_offsets_topic(broker):
    topic, group = fresh_name(), fresh_name()
    broker.create_topic(topic, 2)
    commit(broker, group, topic, 42)
    commit(broker, group, topic, 43)
    printed = tool(
        broker, "consumer.ConsoleConsumer", "--topic", OFFSETS_TOPIC, "--from-beginning", "--timeout-ms", "4000",
        "--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
    )  # fmt: skip
    found = [
        (entry["key"]["data"]["partition"], entry["value"]["data"]["offset"], entry["value"]["data"]["metadata"])
        for entry in json_values(printed)
        if entry["key"]["data"]["group"] == group
    ]
    assert sorted(found) == [(0, 42, "here"), (0, 43, "here"), (1, 42, "here"), (1, 43, "here")]


def test_the_offsets_topic_is_read_by_an_ordinary_consumer(broker):
    topic, group = fresh_name(), fresh_name()
    broker.create_topic(topic, 2)
    commit(broker, group, topic, 7)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.partition.eof": True})
    partitions = consumer.list_topics(OFFSETS_TOPIC, 20).topics[OFFSETS_TOPIC].partitions
    assert len(partitions) == 50
    consumer.assign([TopicPartition(OFFSETS_TOPIC, number, 0) for number in partitions])
    found, ended = [], set()
    while len(ended) < 50:
        message = consumer.poll(20)
        assert message is not None, "the topic was not read to its end"
        if message.error() is not None:
            ended.add(message.partition())
        elif message.key() is not None:
            entry = decode_entry(message.key(), message.value())
            if isinstance(entry, OffsetCommitEntry) and entry.group == group:
                found.append((entry.topic, entry.partition, entry.value.offset, entry.value.metadata))
    consumer.close()
    assert sorted(found) == [(topic, 0, 7, "here"), (topic, 1, 7, "here")]
