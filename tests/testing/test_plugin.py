"""The fixtures that users of pytest get, tried in runs of pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CLIENT = """
from confluent_kafka import Consumer, Producer

def write(broker, topic, value):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value)
    assert producer.flush(20) == 0

def read(broker, topic):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(20)
        if message.error() is None:
            consumer.close()
            return message.value()
"""


def run_pytest(
    directory: Path, test: str, *more: str, conftest: str = "", uses_a_client: bool = True
) -> subprocess.CompletedProcess[str]:
    (directory / "client.py").write_text(CLIENT)
    (directory / "conftest.py").write_text(conftest)
    (directory / "test_mine.py").write_text(("from client import read, write\n\n" if uses_a_client else "") + test)
    # A timeout of this project's own plugins must not reach into the run that is looked at.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *more, "test_mine.py"]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120)


def test_the_broker_is_one_for_the_run_and_topic_names_are_fresh_per_test(tmp_path):
    ran = run_pytest(
        tmp_path,
        """
import pytest

seen = []

@pytest.mark.parametrize("value", ["a b/ü", "x" * 400])
def test_a_record_comes_back(seamark_broker, seamark_topic, value):
    write(seamark_broker, seamark_topic, value)
    assert read(seamark_broker, seamark_topic) == value.encode()
    seen.append((seamark_broker.bootstrap, seamark_topic))

def test_it_was_one_broker_and_two_topics():
    brokers, topics = zip(*seen)
    assert len(set(brokers)) == 1
    assert len(set(topics)) == 2
    assert all(name.startswith("test_a_record_comes_back") for name in topics)
""",
    )
    assert "3 passed" in ran.stdout, ran.stdout + ran.stderr


def test_what_one_test_does_to_the_shared_broker_the_next_does_not_find(tmp_path):
    ran = run_pytest(
        tmp_path,
        """
import time

import pytest

holds = []

@pytest.fixture(scope="module")
def address(seamark_broker):
    return seamark_broker.bootstrap

def test_everything_goes_wrong(seamark_broker, seamark_topic):
    from seamark.client import Admin
    from seamark.client.admin.types import Resource

    write(seamark_broker, seamark_topic, b"x")
    with Admin(bootstrap_servers=seamark_broker.bootstrap) as admin:
        admin.alter_configs({Resource("broker", "0"): {"message.max.bytes": "100"}}).raise_if_failed()
    broker = seamark_broker
    broker.advance(30 * 24 * 3600)
    for api in ("Produce", "Metadata", "FindCoordinator"):
        broker.faults.fail(api, "UNKNOWN_SERVER_ERROR", times=None)
        broker.faults.delay(api, 60)
        broker.faults.drop(api, times=None)
    holds.append(broker.faults.hold_loading("next"))
    broker.faults.fill_disk()
    broker.nodes[0].slow(60)
    broker.nodes[0].stop()

def test_nothing_of_it_is_left(seamark_broker, seamark_topic, address):
    from seamark.client import Consumer, Producer, TopicPartition

    assert seamark_broker.bootstrap == address
    write(seamark_broker, seamark_topic, b"x" * 1000)
    assert read(seamark_broker, seamark_topic) == b"x" * 1000
    seamark_broker.create_topic("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    with Producer(bootstrap_servers=seamark_broker.bootstrap) as producer:
        stamp = producer.send("stamped", b"x").result(30).timestamp_ms
    assert abs(stamp - time.time() * 1000) < 3_600_000
    with Consumer(bootstrap_servers=seamark_broker.bootstrap, group_id="next") as consumer:
        consumer.commit({TopicPartition("stamped", 0): 1})
    holds[0].release()
""",
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_test_that_closes_the_shared_broker_is_told_so(tmp_path):
    ran = run_pytest(
        tmp_path, "def test_it(seamark_broker): seamark_broker.close()\ndef test_next(): pass", uses_a_client=False
    )
    assert "this test closed seamark_broker, which all tests share" in ran.stdout
    assert "2 passed, 1 error" in ran.stdout


def test_a_cluster_is_the_tests_own_and_survives_the_loss_of_a_node(tmp_path):
    ran = run_pytest(
        tmp_path,
        """
import pytest

@pytest.mark.parametrize("node", [0, 1])
def test_a_node_is_lost(seamark_cluster, seamark_topic, node):
    assert all(each.is_running for each in seamark_cluster.nodes)
    assert len(seamark_cluster.nodes) == 3
    seamark_cluster.create_topic(seamark_topic, 3)
    seamark_cluster.nodes[node].stop()
    write(seamark_cluster, seamark_topic, b"still here")
    assert read(seamark_cluster, seamark_topic) == b"still here"
""",
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_settings_are_overridden_in_a_conftest(tmp_path):
    ran = run_pytest(
        tmp_path,
        """
from confluent_kafka.admin import AdminClient

def test_a_topic_made_by_writing_has_five_partitions(seamark_broker, seamark_topic):
    write(seamark_broker, seamark_topic, b"first")
    topics = AdminClient({"bootstrap.servers": seamark_broker.bootstrap}).list_topics(seamark_topic, 20).topics
    assert len(topics[seamark_topic].partitions) == 5
""",
        conftest="""
import pytest

@pytest.fixture(scope="session")
def seamark_settings():
    return {"num.partitions": 5, "group.initial.rebalance.delay.ms": 0}
""",
    )
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_wrong_setting_is_one_sentence_in_the_error(tmp_path):
    ran = run_pytest(
        tmp_path,
        "def test_it(seamark_broker): pass",
        conftest="""
import pytest

@pytest.fixture(scope="session")
def seamark_settings():
    return {"num.partitions": "many"}
""",
    )
    assert ran.returncode == 1
    assert "num.partitions" in ran.stdout


def test_a_run_that_asks_for_no_broker_loads_nothing_of_it(tmp_path):
    ran = run_pytest(
        tmp_path,
        """
import sys

def test_it(seamark_topic):
    loaded = {"asyncio", "uvloop", "seamark.broker", "seamark.wire", "cramjam"} & set(sys.modules)
    assert loaded == set()
""",
        # Plugins of others that load an event loop by themselves.
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:anyio",
        uses_a_client=False,
    )
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
