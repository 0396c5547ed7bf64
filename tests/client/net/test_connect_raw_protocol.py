"""The raw program of the examples, run as a program, against every broker and with every error of its tables."""

import subprocess
import sys
from pathlib import Path

import pytest

from seamark.client import Admin, TopicPartition
from seamark.client.admin.types import NewTopic

PROGRAM = Path(__file__).parents[3] / "examples" / "raw_protocol.py"


def run(*arguments, timeout=60):
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


# covers: I31, A2, B1, B6, B7, B8
def test_it_commits_two_partitions_and_fetches_one(kafka_like, admin, fresh_name):
    group, topic = fresh_name("demoGroup"), fresh_name("demoTopic")
    admin.create_topics([NewTopic(topic, 2)]).raise_if_failed()
    done = run(kafka_like.bootstrap, group, topic)
    assert done.stderr == ""
    assert done.stdout == f"{topic}-0 offset=100 metadata='associated metadata'\n"
    offsets = admin.list_group_offsets([group])[group]
    assert {partition: each.offset for partition, each in offsets.items()} == {
        TopicPartition(topic, 0): 100,
        TopicPartition(topic, 1): 200,
    }


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),  # B9
        ("OffsetCommit", "NOT_COORDINATOR"),  # F20
        ("OffsetCommit", "COORDINATOR_NOT_AVAILABLE"),  # F20
        ("OffsetCommit", "OFFSET_METADATA_TOO_LARGE"),  # F20
        ("OffsetFetch", "NOT_COORDINATOR"),  # F22
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),  # F22
    ],
)
def test_it_recovers_from_the_errors_of_its_tables(api, code):
    from seamark import Broker

    with Broker() as broker:
        broker.create_topic("demoTopic", partitions=2)
        broker.faults.fail(api, code, times=2)
        done = run(broker.bootstrap, "demoGroup", "demoTopic")
        assert done.returncode == 0, done.stderr
        assert "offset=100" in done.stdout


@pytest.mark.parametrize("api", ["FindCoordinator", "OffsetCommit", "OffsetFetch"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_it_recovers_from_a_connection_that_breaks(api, when):  # B10, F21, F23
    from seamark import Broker

    with Broker() as broker:
        broker.create_topic("demoTopic", partitions=2)
        broker.faults.drop(api, when=when)
        done = run(broker.bootstrap, "demoGroup", "demoTopic")
        assert done.returncode == 0, done.stderr
        assert "offset=100" in done.stdout


def test_what_retrying_cannot_heal_is_one_sentence_and_an_exit_code():  # F24: not everything is retried
    from seamark import Broker

    with Broker() as broker:
        broker.create_topic("demoTopic", partitions=2)
        broker.faults.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=1)
        done = run(broker.bootstrap, "demoGroup", "demoTopic")
        assert done.returncode == 1
        assert done.stderr == "commit for group 'demoGroup': GROUP_AUTHORIZATION_FAILED\n"


def test_wrong_arguments_are_answered_with_the_usage():
    assert run("localhost").returncode == 2


def test_the_group_is_as_an_admin_client_sees_it():
    from seamark import Broker

    with Broker(nodes=3) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        broker.create_topic("demoTopic", partitions=2)
        first = broker.bootstrap.split(",")[0]
        for number in range(4):
            assert run(first, f"demoGroup{number}", "demoTopic").returncode == 0
        described = admin.describe_groups()
        # Groups live on different coordinators; the program followed each of them there.
        assert len({each.coordinator.id for each in described.values()}) > 1
        assert set(described) == {f"demoGroup{number}" for number in range(4)}
