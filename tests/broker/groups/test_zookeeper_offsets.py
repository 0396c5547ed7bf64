"""OffsetCommit and OffsetFetch in version 0, kept in a real ZooKeeper, beside the later versions in Kafka."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from seamark import Broker
from seamark.client import Admin
from seamark.errors import ConfigError
from seamark.stores import StoredOffset, ZookeeperStore
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages import offset_commit as commit_api
from seamark.wire.protocol.messages import offset_fetch as fetch_api
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.capture import CaptureError, exchange

PROGRAM = Path(__file__).parents[3] / "examples" / "raw_offsets.py"
T0 = TopicPartition("orders", 0)


@pytest.fixture
def broker(zookeeper_connect):
    with Broker(nodes=2, settings={"offsets.zookeeper.connect": zookeeper_connect}) as made:
        made.create_topic("orders", partitions=2)
        yield made


@pytest.fixture
def store(zookeeper_connect):
    with ZookeeperStore(zookeeper_connect) as made:
        yield made


def ask(broker, request, response, version, node=0):
    frame = exchange(broker.nodes[node].bootstrap, encode_request(request, version, 7, "test"), timeout=20)
    correlation_id, answer = decode_response(response, frame[4:], version)
    assert correlation_id == 7
    return answer


def commit(broker, version, offsets, group="demoGroup", metadata="", node=0):
    request = commit_api.OffsetCommitRequest(
        group_id=group,
        topics=[
            commit_api.OffsetCommitRequestTopic(
                name=partition.topic,
                partitions=[
                    commit_api.OffsetCommitRequestPartition(
                        partition_index=partition.partition, committed_offset=offset, committed_metadata=metadata
                    )
                ],
            )
            for partition, offset in offsets.items()
        ],
    )
    answer = ask(broker, request, commit_api.OffsetCommitResponse, version, node)
    return [
        (found.name, each.partition_index, ErrorCode(each.error_code))
        for found in answer.topics
        for each in found.partitions
    ]


def fetch(broker, version, partitions, group="demoGroup", node=0):
    request = fetch_api.OffsetFetchRequest(
        group_id=group,
        topics=[
            fetch_api.OffsetFetchRequestTopic(name=each.topic, partition_indexes=[each.partition])
            for each in partitions
        ],
    )
    answer = ask(broker, request, fetch_api.OffsetFetchResponse, version, node)
    return [
        (each.committed_offset, each.metadata, ErrorCode(each.error_code))
        for found in answer.topics
        for each in found.partitions
    ]


# covers: G3, G4, G9
def test_what_version_0_commits_and_what_version_1_commits_are_kept_apart(broker, store):
    assert commit(broker, 0, {T0: 100}) == [("orders", 0, ErrorCode.NONE)]
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("demoGroup", {T0: 1}).raise_if_failed()
        node = admin.describe_groups(["demoGroup"])["demoGroup"].coordinator.id
        assert commit(broker, 1, {T0: 200}, node=node) == [("orders", 0, ErrorCode.NONE)]
        assert fetch(broker, 0, [T0]) == [(100, "", ErrorCode.NONE)]
        assert fetch(broker, 1, [T0], node=node) == [(200, "", ErrorCode.NONE)]
        assert store.read("demoGroup") == {T0: StoredOffset(100)}
        assert admin.list_group_offsets(["demoGroup"])["demoGroup"][T0].offset == 200


def test_every_node_answers_version_0_whoever_coordinates_the_group(broker):
    for node in (0, 1):
        assert commit(broker, 0, {T0: 10 + node}, node=node) == [("orders", 0, ErrorCode.NONE)]
        assert fetch(broker, 0, [T0], node=1 - node) == [(10 + node, "", ErrorCode.NONE)]


def test_version_0_is_offered_only_with_a_zookeeper(broker):
    def offered(of):
        answer = ask(of, ApiVersionsRequest(), ApiVersionsResponse, 0)
        return {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys if each.api_key in (8, 9)
        }

    assert offered(broker) == {8: (0, 9), 9: (0, 9)}
    with Broker() as plain:
        plain.create_topic("orders")
        assert offered(plain) == {8: (1, 9), 9: (1, 9)}
        with pytest.raises(CaptureError):
            commit(plain, 0, {T0: 1})


def test_each_partition_of_a_version_0_request_has_its_own_answer(broker, store):
    missing, wrong = TopicPartition("nowhere", 0), TopicPartition("orders", 9)
    assert commit(broker, 0, {missing: 1, T0: 2, wrong: 3}) == [
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 0, ErrorCode.NONE),
    ]
    second = TopicPartition("orders", 1)
    assert commit(broker, 0, {second: 5}, metadata="x" * 4097) == [("orders", 1, ErrorCode.OFFSET_METADATA_TOO_LARGE)]
    assert commit(broker, 0, {second: -1}) == [("orders", 1, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert commit(broker, 0, {second: 5}, group="a/b") == [("orders", 1, ErrorCode.INVALID_GROUP_ID)]
    assert store.read("demoGroup") == {T0: StoredOffset(2)}
    # This is how the version says that nothing is stored.
    nothing = (-1, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert fetch(broker, 0, [T0, second, missing]) == [(2, "", ErrorCode.NONE), nothing, nothing]


def test_a_node_that_is_no_number_is_an_error_of_its_partition_alone(broker, store, zookeeper):
    from kazoo.client import KazooClient

    second = TopicPartition("orders", 1)
    store.write("demoGroup", {T0: StoredOffset(1), second: StoredOffset(2)})
    client = KazooClient(store.name.removeprefix("zookeeper "))
    client.start(20)
    client.set("/consumers/demoGroup/offsets/orders/1", b"many")
    client.stop()
    client.close()
    assert fetch(broker, 0, [second, T0]) == [(-1, "", ErrorCode.UNKNOWN_SERVER_ERROR), (1, "", ErrorCode.NONE)]


def test_a_bad_connect_string_names_the_broker_s_key():
    with pytest.raises(ConfigError, match=r"offsets\.zookeeper\.connect"):
        Broker(settings={"offsets.zookeeper.connect": "zk:port"})


def test_a_zookeeper_that_is_away_is_an_error_to_retry_and_holds_nobody_up(monkeypatch):
    monkeypatch.setattr("seamark.broker.groups.zookeeper._PATIENCE_S", 2.0)
    with Broker(settings={"offsets.zookeeper.connect": "127.0.0.1:1"}) as broker:
        broker.create_topic("orders", partitions=1)
        answers = []
        waiting = [threading.Thread(target=lambda: answers.append(commit(broker, 0, {T0: 1}))) for _ in range(3)]
        begun = time.monotonic()
        for thread in waiting:
            thread.start()
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            # The event loop serves everybody else meanwhile.
            admin.alter_group_offsets("g", {T0: 3}).raise_if_failed()
            assert admin.list_group_offsets(["g"])["g"][T0].offset == 3
        assert answers == []
        for thread in waiting:
            thread.join()
        assert answers == [[("orders", 0, ErrorCode.COORDINATOR_NOT_AVAILABLE)]] * 3
        # Those that waited with the first one were not made to wait again.
        assert time.monotonic() - begun < 4


def run(*arguments):
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


# covers: I31, A17, A18, A40, G9
def test_the_raw_program_commits_two_and_fetches_one_in_either_version(broker, store):
    bootstrap = broker.nodes[0].bootstrap
    nothing = run(bootstrap, "demoGroup", "orders", "--version", "0", "--only-fetch")
    assert nothing.stdout == "version 0: orders-0 offset=-1 metadata=''\n"
    # The source's own numbers in Kafka, others in ZooKeeper.
    in_kafka = run(bootstrap, "demoGroup", "orders", "--version", "1")
    in_zookeeper = run(bootstrap, "demoGroup", "orders", "--version", "0", "--offsets", "7,8")
    assert (in_kafka.returncode, in_zookeeper.returncode) == (0, 0), in_kafka.stderr + in_zookeeper.stderr
    assert in_kafka.stdout == "version 1: orders-0 offset=100 metadata='associated metadata'\n"
    assert in_zookeeper.stdout == "version 0: orders-0 offset=7 metadata=''\n"
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        stored = admin.list_group_offsets(["demoGroup"])["demoGroup"]
    assert [(each.offset, each.metadata) for each in stored.values()] == [
        (100, "associated metadata"),
        (200, "more metadata"),
    ]
    assert [each.offset for each in store.read("demoGroup").good.values()] == [7, 8]


@pytest.mark.parametrize("version", ["0", "1"])
def test_the_raw_program_recovers_as_its_tables_say(broker, version):
    broker.faults.fail("OffsetCommit", "NOT_COORDINATOR", times=1)
    broker.faults.fail("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", times=1)
    done = run(broker.nodes[0].bootstrap, "demoGroup", "orders", "--version", version)
    assert done.returncode == 0, done.stderr
    assert "NotCoordinatorForConsumer" in done.stderr
    assert "offset=100" in done.stdout


def test_the_raw_program_says_so_of_a_release_that_dropped_both_versions(apache_kafka):
    done = run(apache_kafka.bootstrap, "demoGroup", "orders", "--version", "1")
    assert done.returncode == 1
    assert done.stderr == f"{apache_kafka.bootstrap} serves OffsetCommitRequest from version 2 on, not 1\n"


def test_the_raw_program_says_so_where_the_version_is_not_served():
    with Broker() as plain:
        plain.create_topic("orders", partitions=2)
        done = run(plain.bootstrap, "demoGroup", "orders", "--version", "0")
    assert done.returncode == 1
    assert done.stderr == f"{plain.bootstrap} serves OffsetCommitRequest from version 1 on, not 0\n"
