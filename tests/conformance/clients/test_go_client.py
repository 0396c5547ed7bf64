"""franz-go, the Go client, commits offsets to our broker: the load program of the benchmarks, kept short."""

from __future__ import annotations

import json
import subprocess

from confluent_kafka import Consumer, TopicPartition

from benchmarks.go_load import commit_load_program
from seamark import Broker


def test_franz_go_creates_a_topic_and_commits_offsets():
    with Broker(nodes=2) as broker:
        command = [commit_load_program(), broker.nodes[0].bootstrap, "4", "1", "4"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        told = json.loads(done.stdout)
        assert told["failed_partitions"] == 0
        assert told["commits"] > 100
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "load-0"})
        committed = consumer.committed([TopicPartition("bench", number) for number in range(4)], 20)
        assert len({each.offset for each in committed}) == 1
        assert committed[0].offset > 10
        consumer.close()
