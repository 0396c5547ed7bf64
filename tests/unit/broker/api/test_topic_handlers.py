"""Metadata, CreateTopics and their like on a cluster in memory: what is made, what is told, and who may ask."""

from __future__ import annotations

from typing import Any

import pytest

from seamark.broker.api.topic_rules import MOST_MADE_BY_METADATA
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from seamark.wire.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from seamark.wire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from seamark.wire.protocol.messages.init_producer_id import InitProducerIdRequest
from seamark.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from seamark.wire.schema.schema import ZERO_UUID
from tests.unit.broker.api.handler_harness import Client, Served

CLUSTER = ("CREATE", "CLUSTER", "kafka-cluster")


@pytest.fixture
def world() -> Served:
    return Served()


def metadata(client: Client, *names: str, version: int = 13, **fields: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names] if names else None
    if version >= 4:
        fields.setdefault("allow_auto_topic_creation", False)
    return client.ask(MetadataRequest(topics=topics, **fields), version)


def codes(answer: Any) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in answer.topics}


def new_topic(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> CreateTopicsRequestTopic:
    return CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreateTopicsRequestConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


# -- Metadata


@pytest.mark.parametrize("version", range(14))
def test_metadata_tells_nodes_topics_and_leaders_in_every_version(version: int) -> None:
    world = Served(nodes=2)
    world.cluster.create_topic("t", [[0, 1], [1, 0]], {})
    answer = metadata(world.client(), "t", version=version)
    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
        (0, "127.0.0.1", 9092),
        (1, "127.0.0.1", 9093),
    ]
    [topic] = answer.topics
    found = [(each.partition_index, each.leader_id, each.replica_nodes, each.isr_nodes) for each in topic.partitions]
    assert found == [(0, 0, [0, 1], [0, 1]), (1, 1, [1, 0], [1, 0])]


def test_a_node_that_stopped_is_told_as_an_offline_replica() -> None:
    world = Served(nodes=2)
    world.cluster.create_topic("t", [[0, 1]], {})
    stopped: Any = world.cluster.nodes[1]
    stopped.is_running = False
    world.cluster.node_stopped(stopped)
    answer = metadata(world.client(), "t")
    assert [each.node_id for each in answer.brokers] == [0]
    [partition] = answer.topics[0].partitions
    assert (partition.isr_nodes, partition.offline_replicas) == ([0], [1])


def test_without_names_only_topics_that_may_be_described_are_told(world: Served) -> None:  # L4
    world.create_topic("seen")
    world.create_topic("secret")
    client = world.client(rights={("DESCRIBE", "TOPIC", "seen")})
    assert codes(metadata(client)) == {"seen": 0}
    # By its name it is refused alike whether it exists or not.
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes(metadata(client, "secret", "absent")) == {"secret": denied, "absent": denied}


def test_a_topic_that_may_not_be_seen_keeps_its_name_when_asked_for_by_id(world: Served) -> None:
    world.create_topic("secret")
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=world.cluster.topics["secret"].id)])
    [topic] = world.client(rights=set()).ask(wanted, 13).topics
    assert (topic.error_code, topic.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    assert world.client().ask(wanted, 13).topics[0].name == "secret"


def test_asking_makes_a_topic_for_who_may_create_it_and_the_next_answer_shows_it(world: Served) -> None:
    describe = {("DESCRIBE", "TOPIC", "new")}
    stranger = world.client(rights=describe)
    refused = metadata(stranger, "new", allow_auto_topic_creation=True)
    assert codes(refused) == {"new": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert "new" not in world.cluster.topics
    for rights in (describe | {CLUSTER}, describe | {("CREATE", "TOPIC", "new")}):
        client = world.client(rights=rights)
        first = metadata(client, "new", allow_auto_topic_creation=True)
        assert codes(first) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert codes(metadata(client, "new")) == {"new": 0}
        world.cluster.delete_topic(world.cluster.topics["new"])


def test_one_request_makes_only_so_many_topics_and_the_rest_with_the_next(world: Served) -> None:
    names = [f"t{number}" for number in range(MOST_MADE_BY_METADATA + 10)]
    first = codes(metadata(world.client(), *names, allow_auto_topic_creation=True))
    assert list(first.values()).count(ErrorCode.LEADER_NOT_AVAILABLE) == 10
    assert len(world.cluster.topics) == MOST_MADE_BY_METADATA
    metadata(world.client(), *names, allow_auto_topic_creation=True)
    assert set(codes(metadata(world.client(), *names)).values()) == {0}


def test_a_full_disk_makes_no_topic_on_the_way_and_is_told(world: Served) -> None:
    world.cluster.storage.is_full = True
    answer = metadata(world.client(), "new", allow_auto_topic_creation=True)
    assert codes(answer) == {"new": ErrorCode.LEADER_NOT_AVAILABLE}
    assert [place for place, _ in world.failures] == ["Metadata"]
    assert not world.cluster.topics


# -- CreateTopics, CreatePartitions, DeleteTopics


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_made_with_their_configuration_in_every_version(world: Served, version: int) -> None:
    wanted = [new_topic("a", 3, retention_ms="1000"), new_topic("b")]
    answer = world.client().ask(CreateTopicsRequest(topics=wanted), version)
    assert codes(answer) == {"a": 0, "b": 0}
    assert len(world.cluster.topics["a"].partitions) == 3
    assert world.cluster.topics["a"].config.own == {"retention.ms": 1000}
    if version >= 5:
        shown = {each.name: each.value for each in answer.topics[0].configs}
        assert (answer.topics[0].num_partitions, shown["retention.ms"]) == (3, "1000")
    if version >= 7:
        assert answer.topics[0].topic_id == world.cluster.topics["a"].id != ZERO_UUID


def test_a_dry_run_makes_nothing_and_answers_as_if(world: Served) -> None:
    answer = world.client().ask(CreateTopicsRequest(topics=[new_topic("a", 3)], validate_only=True), 7)
    assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (0, 3)
    assert not world.cluster.topics


def test_who_may_create_some_topics_creates_these_alone(world: Served) -> None:  # L4
    client = world.client(rights={("CREATE", "TOPIC", "mine")})
    answer = client.ask(CreateTopicsRequest(topics=[new_topic("mine"), new_topic("theirs")]), 7)
    assert codes(answer) == {"mine": 0, "theirs": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    # It may not look at the configuration either, which is said apart from the outcome.
    assert answer.topics[0].topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert list(world.cluster.topics) == ["mine"]


def test_a_name_that_stands_twice_or_differs_in_dots_alone_is_refused(world: Served) -> None:
    twice = CreateTopicsRequest(topics=[new_topic("a"), new_topic("a"), new_topic("x.y"), new_topic("x_y")])
    answer = world.client().ask(twice, 7)
    assert codes(answer) == {"a": ErrorCode.INVALID_REQUEST, "x.y": 0, "x_y": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_on_a_full_disk_none_of_the_topics_is_made(world: Served) -> None:
    world.cluster.storage.is_full = True
    answer = world.client().ask(CreateTopicsRequest(topics=[new_topic("a"), new_topic("b")]), 7)
    assert set(codes(answer).values()) == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert not world.cluster.topics
    world.cluster.storage.is_full = False
    assert set(codes(world.client().ask(CreateTopicsRequest(topics=[new_topic("a")]), 7)).values()) == {0}


def test_partitions_are_added_by_who_may_alter_the_topic(world: Served) -> None:
    world.create_topic("t")
    request = CreatePartitionsRequest(topics=[CreatePartitionsRequestTopic(name="t", count=3, assignments=None)])
    [denied] = world.client(rights=set()).ask(request, 3).results
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    [allowed] = world.client(rights={("ALTER", "TOPIC", "t")}).ask(request, 3).results
    assert allowed.error_code == 0
    assert len(world.cluster.topics["t"].partitions) == 3


def test_a_topic_is_deleted_by_who_may_delete_it(world: Served) -> None:
    world.create_topic("t")
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")])
    [denied] = world.client(rights=set()).ask(request, 6).responses
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    [allowed] = world.client(rights={("DELETE", "TOPIC", "t")}).ask(request, 6).responses
    assert allowed.error_code == 0
    assert not world.cluster.topics


def test_a_producer_id_is_for_who_may_write_somewhere(world: Served) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    assert world.client(rights=set()).ask(request, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    client = world.client(rights={("WRITE", "TOPIC", "t")})
    assert [client.ask(request, 4).producer_id for _ in range(2)] == [0, 1]
