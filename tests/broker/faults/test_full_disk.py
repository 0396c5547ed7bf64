"""``faults.fill_disk``: whatever a broker would write is refused, in memory as in a directory, until there is room."""

from __future__ import annotations

import pytest

from seamark import Broker
from seamark.broker.security.security import Security
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from seamark.wire.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from seamark.wire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker.log.test_disk_while_running import BROKER, STORAGE_ERROR, TOPIC, alter, config, create_rule, rules
from tests.support.broker_driver import Client, batch_of


@pytest.fixture(params=["memory", "directory"])
def broker(request, tmp_path):
    data = None if request.param == "memory" else tmp_path / "data"
    with Broker(data=data, nodes=2, security=Security(super_users=["User:ANONYMOUS"])) as running:
        running.create_topic("t", 1)
        yield running
        running.faults.free_disk()


@pytest.fixture
def client(broker):
    """At the node that leads ``t``."""
    leader = broker._server.cluster.topics["t"].partitions[0].leader
    with Client(broker.nodes[leader].bootstrap) as connected:
        connected.produce("t", batch_of(b"before"))
        yield connected


def writes(client):
    """The error code of everything that a client can make the broker store, by what it is."""
    more = CreatePartitionsRequest(topics=[CreatePartitionsRequestTopic(name="t", count=3, assignments=None)])
    records = DeleteRecordsRequestTopic(
        name="t", partitions=[DeleteRecordsRequestPartition(partition_index=0, offset=1)]
    )
    producer = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    gone = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")])
    return {
        "records": client.produce("t", batch_of(b"more")).error_code,
        "a topic": client.create_topic("new").error_code,
        "partitions": client.ask(more, 3).results[0].error_code,
        "a topic's setting": alter(client, TOPIC, "t", **{"retention.ms": "1234"}),
        "a broker's setting": alter(client, BROKER, "0", **{"log.retention.ms": "1234"}),
        "an access rule": create_rule(client),
        "a producer id": client.ask(producer, 4).error_code,
        "a log's start": client.ask(DeleteRecordsRequest(topics=[records]), 2).topics[0].partitions[0].error_code,
        "a deletion": client.ask(gone, 6).responses[0].error_code,
    }


def seen(client):
    return (
        client.values("t"),
        sorted(topic.name for topic in client.metadata().topics),
        len(client.metadata("t").topics[0].partitions),
        config(client, TOPIC, "t", "retention.ms"),
        config(client, BROKER, "0", "log.retention.ms"),
        rules(client),
    )


def test_everything_that_would_be_stored_is_refused_and_nothing_of_it_is_in_effect(broker, client):
    before = seen(client)
    broker.faults.fill_disk()
    for _ in range(2):
        assert {what for what, code in writes(client).items() if code != STORAGE_ERROR} == set()
    found = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0]
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert seen(client) == before
    broker.faults.free_disk()
    assert set(writes(client).values()) == {0}


def test_a_node_stops_and_starts_all_the_same_and_its_leadership_is_stored_later(broker, client, caplog):
    partition = broker._server.cluster.topics["t"].partitions[0]
    leader, epoch = partition.leader, partition.leader_epoch
    broker.faults.fill_disk()
    broker.nodes[leader].stop()
    assert (partition.leader, partition.leader_epoch) == (1 - leader, epoch + 1)
    with Client(broker.nodes[1 - leader].bootstrap) as other:
        assert other.values("t") == [b"before"]
        assert other.produce("t", batch_of(b"more")).error_code == STORAGE_ERROR
        broker.nodes[leader].start()
        assert caplog.text.count("the partition leaders could not be stored") >= 1
        broker.faults.free_disk()
        assert broker._server.cluster._is_behind
        broker.restore()
        assert not broker._server.cluster._is_behind


def test_clear_ends_it_too(broker, client):
    broker.faults.fill_disk()
    broker.faults.clear()
    assert client.create_topic("new").error_code == 0


def test_a_partition_that_cannot_be_written_is_named_once_in_the_log(broker, client, caplog):
    broker.faults.fill_disk()
    client.produce("t", batch_of(b"refused"))
    lines = [record.getMessage() for record in caplog.records if "disk is full" in record.getMessage()]
    assert [line.count("t-0") for line in lines if line.startswith("t-0: ")] == [1]
