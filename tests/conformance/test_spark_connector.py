"""Spark's own Kafka connector, jars and all, cannot tell our broker from Kafka: batch, stream and both ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from seamark import Broker
from tests.support.spark_session import connector_jars, spark_environment

REPOSITORY = Path(__file__).parents[2]
RECORDS = 100
PARTITIONS = 3


def produce(bootstrap: str, topic: str) -> list[list[object]]:
    """What a reader must find: partition, offset, key, value and how many headers."""
    expected: list[list[object]] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        partition, offset = number % PARTITIONS, number // PARTITIONS
        headers = [("number", str(number).encode())] if number % 2 else []
        key, value = f"key-{number}", f"value-{number}"
        producer.produce(topic, value.encode(), key.encode(), partition, headers=headers)
        expected.append([partition, offset, key, value, len(headers)])
    assert producer.flush(30) == 0
    return sorted(expected)


def contents(bootstrap: str, topic: str, count: int) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    for _ in range(60):
        messages = consumer.consume(count, 1.0)
        found += [(message.key(), message.value()) for message in messages]
        if len(found) >= count:
            break
    consumer.close()
    return sorted(found)


@pytest.mark.java
@pytest.mark.slow
def test_spark_reads_streams_and_writes_through_its_own_connector(tmp_path):
    connector_jars()
    with Broker() as broker:
        for topic in ("numbers", "copied", "streamed"):
            broker.create_topic(topic, partitions=PARTITIONS)
        expected = produce(broker.bootstrap, "numbers")
        program = [sys.executable, "-m", "tests.conformance.clients.spark_connector_program"]
        done = subprocess.run(
            [*program, broker.bootstrap, "numbers", "copied", "streamed", str(tmp_path / "checkpoint")],
            cwd=REPOSITORY,
            env={**os.environ, **spark_environment()},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(done.stdout.splitlines()[-1])
        assert told["rows"] == expected
        first, second = told["stream_rows"]
        assert sum(first) == RECORDS
        assert len(first) == 3, "maxOffsetsPerTrigger makes three batches of a hundred records"
        assert second == [1]
        pairs = sorted((key.encode(), value.encode()) for _, _, key, value, _ in expected)
        assert contents(broker.bootstrap, "copied", RECORDS) == pairs
        assert contents(broker.bootstrap, "streamed", RECORDS + 1) == sorted([*pairs, (b"late", b"late-value")])
