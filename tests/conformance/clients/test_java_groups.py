"""Kafka's own consumers and console tools work with our broker's groups."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from seamark.broker import Broker
from tests.conformance.differential.group_requests import commit_fields
from tests.conformance.differential.script import Recorder
from tests.support.java import java_program, run_java, short_lived_java, utf_8_environment
from tests.support.maven import class_path, kafka_jars

pytestmark = pytest.mark.java

STORY = Path(__file__).parent.parent / "java" / "GroupStory.java"
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
    with Broker(settings=settings) as running:
        yield running


@pytest.mark.parametrize("assignor", ["Range", "RoundRobin", "Sticky", "CooperativeSticky"])
def test_a_group_of_java_consumers_shares_loses_and_resumes(broker: Broker, assignor: str) -> None:
    topic = f"story-{assignor}"
    broker.create_topic(topic, 6)
    name = f"org.apache.kafka.clients.consumer.{assignor}Assignor"
    told = run_java(STORY, args=[broker.bootstrap, topic, f"group-{assignor}", name], timeout=120)
    assert told.splitlines() == ["three members", "one left", "one died", "read 60", "committed 4 so far"]


def groups_tool(broker: Broker, *args: str) -> str:
    command = short_lived_java(class_path(kafka_jars()), GROUPS_TOOL, ["--bootstrap-server", broker.bootstrap, *args])
    run = subprocess.run(
        command, env=utf_8_environment(), capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_console_tool_describes_resets_and_deletes_a_group(broker: Broker) -> None:  # M1, M2
    broker.create_topic("tooled", 2)
    recorder = Recorder(broker.bootstrap)
    try:
        recorder.coordinate("tooled-group")
        answer = recorder.ask("OffsetCommit", 8, **commit_fields("tooled-group", "tooled", 8, 0, 1, offset=0))
        assert answer.topics[0].partitions[0].error_code == 0
    finally:
        recorder.close()
    assert "tooled-group" in groups_tool(broker, "--list").split()
    described = groups_tool(broker, "--describe", "--group", "tooled-group")
    rows = [line.split() for line in described.splitlines() if line.startswith("tooled-group")]
    assert sorted(row[1:6] for row in rows) == [["tooled", "0", "0", "0", "0"], ["tooled", "1", "0", "0", "0"]]
    state = groups_tool(broker, "--describe", "--group", "tooled-group", "--state")
    assert re.search(r"tooled-group\s.*\bEmpty\b", state)
    reset = groups_tool(
        broker, "--reset-offsets", "--group", "tooled-group", "--topic", "tooled:0", "--to-earliest", "--execute"
    )
    assert re.search(r"tooled-group\s+tooled\s+0\s+0", reset)
    assert "successful" in groups_tool(broker, "--delete", "--group", "tooled-group")
    assert "tooled-group" not in groups_tool(broker, "--list").split()


REFUSED = """
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.*;

public class Refused {
    public static void main(String[] args) {
        long start = System.currentTimeMillis();
        Map<String, Object> options = new HashMap<>(Map.of("bootstrap.servers", args[0]));
        options.put("group.id", "newer");
        options.put("group.protocol", "consumer");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("t"));
            while (System.currentTimeMillis() < start + 30_000) consumer.poll(Duration.ofMillis(100));
        } catch (Exception e) {
            System.out.println(e.getClass().getSimpleName());
        }
        Map<String, Object> producing = Map.of("bootstrap.servers", args[0], "transactional.id", "tx");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
        } catch (Exception e) {
            System.out.println(e.getClass().getSimpleName());
        }
        System.out.println(System.currentTimeMillis() - start < 15_000);
    }
}
"""


def test_what_is_not_served_fails_at_once_and_nothing_hangs(broker: Broker) -> None:
    told = java_program(REFUSED, kafka_jars(), broker.bootstrap, timeout=90)
    # The client logs to stdout too.
    told_by_us = [line for line in told.splitlines() if not line[0].isdigit()]
    assert told_by_us == ["UnsupportedVersionException", "TransactionalIdAuthorizationException", "true"]
