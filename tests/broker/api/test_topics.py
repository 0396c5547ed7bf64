"""Topics over real sockets: making, growing, deleting and finding them."""

import pytest

from seamark import Broker
from seamark.errors import UsageError
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
)
from seamark.wire.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from seamark.wire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from seamark.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker_driver import Client, batch_of, fetch_request, fresh_name


@pytest.fixture(scope="module")
def broker():
    with Broker(settings={"num.partitions": 2}) as running:
        yield running


@pytest.fixture
def client(broker):
    with Client(broker.bootstrap) as connected:
        yield connected


def create(client, topic, *, version=7, validate_only=False):
    return client.ask(CreateTopicsRequest(topics=[topic], validate_only=validate_only), version).topics[0]


def wanted(name, partitions=1, factor=1, assignments=None, **configs):
    return CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreateTopicsRequestAssignment(partition_index=index, broker_ids=ids)
            for index, ids in (assignments or {}).items()
        ],
        configs=[CreateTopicsRequestConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


# -- CreateTopics


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_made_in_every_version(client, version):
    name = fresh_name()
    answer = create(client, wanted(name, 3, retention_ms="5000"), version=version)
    assert (answer.error_code, answer.error_message) == (0, None)
    found = client.metadata(name).topics[0]
    assert [p.partition_index for p in found.partitions] == [0, 1, 2]
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (3, 1)
        configs = {config.name: config for config in answer.configs}
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5000", 1)
        assert configs["cleanup.policy"].config_source == 5
    if version >= 7:
        assert answer.topic_id == found.topic_id


def test_minus_one_stands_for_the_brokers_defaults(client):
    answer = create(client, wanted(fresh_name(), -1, -1))
    assert (answer.num_partitions, answer.replication_factor) == (2, 1)


def test_a_dry_run_makes_nothing(client):
    name = fresh_name()
    assert create(client, wanted(name), validate_only=True).error_code == 0
    assert client.metadata(name).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replicas_may_be_given(client):
    name = fresh_name()
    assert create(client, wanted(name, -1, -1, {0: [0], 1: [0]})).num_partitions == 2


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("", 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (wanted("t", 0), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", -2), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", 1, -1, {0: [0]}), ErrorCode.INVALID_REQUEST),
        (wanted("t", -1, -1, {1: [0]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, {0: [5]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, {0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", -1, -1, {0: [0, 0]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", nonsense="1"), ErrorCode.INVALID_CONFIG),
        (wanted("t", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (wanted("t", retention_ms="-2"), ErrorCode.INVALID_CONFIG),
        (wanted("t", retention_ms=None), ErrorCode.INVALID_CONFIG),
        (wanted("t", cleanup_policy="compact,burn"), ErrorCode.INVALID_CONFIG),
        (wanted("t", remote_storage_enable="true"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_a_sentence(client, topic, code):
    answer = create(client, topic)
    assert answer.error_code == code
    assert len(answer.error_message) > 10


def test_a_topic_is_made_once(client):
    name = fresh_name()
    create(client, wanted(name))
    assert create(client, wanted(name)).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    topics = [wanted(name + "x"), wanted(name + "x")]
    answers = client.ask(CreateTopicsRequest(topics=topics)).topics
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST]


def test_names_that_metrics_would_mix_up_collide(client):
    create(client, wanted("a.b_c"))
    assert create(client, wanted("a_b.c")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_caller_in_this_process_gets_a_sentence(broker):
    name = fresh_name()
    broker.create_topic(name, 2, {"retention.ms": 1000})
    with pytest.raises(UsageError, match="already exists"):
        broker.create_topic(name)
    with pytest.raises(UsageError, match="nonsense"):
        broker.create_topic(fresh_name(), config={"nonsense": 1})


# -- DeleteTopics


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_deleted_by_name(broker, client, version):
    name = fresh_name()
    broker.create_topic(name)
    client.produce(name, batch_of(b"a"))
    request = (
        DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=name)])
        if version >= 6
        else DeleteTopicsRequest(topic_names=[name])
    )
    assert client.ask(request, version).responses[0].error_code == 0
    assert client.ask(request, version).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.metadata(name).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_is_deleted_by_id_and_its_name_can_be_used_again(broker, client):
    name = fresh_name()
    broker.create_topic(name)
    client.produce(name, batch_of(b"a"))
    topic_id = client.topic_id(name)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(topic_id=topic_id)])
    answer = client.ask(request).responses[0]
    assert (answer.error_code, answer.name, answer.topic_id) == (0, name, topic_id)
    assert client.ask(request).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    broker.create_topic(name)
    assert client.topic_id(name) != topic_id
    assert client.values(name) == []
    old = client.ask(fetch_request({(topic_id, 0): 0}), 13)
    assert old.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_deletion_names_its_topic_one_way_and_once(broker, client):
    name = fresh_name()
    broker.create_topic(name)
    both = DeleteTopicsRequestTopic(name=name, topic_id=client.topic_id(name))
    neither = DeleteTopicsRequestTopic()
    twice = [DeleteTopicsRequestTopic(name="other"), DeleteTopicsRequestTopic(name="other")]
    answers = client.ask(DeleteTopicsRequest(topics=[both, neither, *twice])).responses
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST] * 3


def test_a_topic_that_is_named_both_ways_stays(broker, client):
    name = fresh_name()
    broker.create_topic(name)
    topic_id = client.topic_id(name)
    both = [DeleteTopicsRequestTopic(name=name), DeleteTopicsRequestTopic(topic_id=topic_id)]
    answers = client.ask(DeleteTopicsRequest(topics=both)).responses
    assert [(answer.error_code, answer.name) for answer in answers] == [(ErrorCode.INVALID_REQUEST, name)]
    assert client.topic_id(name) == topic_id


def test_deletion_can_be_switched_off():
    with Broker(settings={"delete.topic.enable": "false"}) as broker, Client(broker.bootstrap) as client:
        broker.create_topic("kept")
        request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="kept")])
        assert client.ask(request).responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
        assert client.metadata("kept").topics[0].error_code == 0


# -- CreatePartitions


def grow(client, name, count, assignments=None, *, version=3, validate_only=False):
    given = None if assignments is None else [CreatePartitionsRequestAssignment(broker_ids=ids) for ids in assignments]
    topic = CreatePartitionsRequestTopic(name=name, count=count, assignments=given)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=validate_only)
    return client.ask(request, version).results[0]


@pytest.mark.parametrize("version", range(4))
def test_a_topic_is_given_more_partitions(broker, client, version):
    name = fresh_name()
    broker.create_topic(name, 1)
    client.produce(name, batch_of(b"a"))
    assert grow(client, name, 3, version=version, validate_only=True).error_code == 0
    assert len(client.metadata(name).topics[0].partitions) == 1
    assert grow(client, name, 3, version=version).error_code == 0
    assert len(client.metadata(name).topics[0].partitions) == 3
    assert client.produce(name, batch_of(b"b"), partition=2).base_offset == 0
    assert client.values(name) == [b"a"]


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (4, [[0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[0]], ErrorCode.NONE),
    ],
)
def test_more_partitions_are_more_and_well_placed(broker, client, count, assignments, code):
    name = fresh_name()
    broker.create_topic(name, 2)
    assert grow(client, name, count, assignments).error_code == code


def test_an_unknown_topic_does_not_grow(client):
    assert grow(client, "missing", 2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- Metadata


@pytest.mark.parametrize("version", range(14))
def test_every_version_tells_nodes_and_topics(broker, client, version):
    name = fresh_name()
    broker.create_topic(name, 2)
    response = client.metadata(name, version=version, auto_create=version < 4)
    host, _, port = broker.bootstrap.rpartition(":")
    assert [(node.node_id, node.host, node.port) for node in response.brokers] == [(0, host, int(port))]
    found = response.topics[0]
    assert (found.error_code, found.name, len(found.partitions)) == (0, name, 2)
    assert {(p.leader_id, tuple(p.replica_nodes), tuple(p.isr_nodes)) for p in found.partitions} == {(0, (0,), (0,))}
    if version >= 1:
        assert response.controller_id == 0
    if version >= 2:
        assert len(response.cluster_id) == 22


def test_all_topics_are_told_when_none_is_named(broker, client):
    name = fresh_name()
    broker.create_topic(name)
    assert name in [topic.name for topic in client.metadata().topics]
    assert name in [topic.name for topic in client.ask(MetadataRequest(topics=[]), 0).topics]
    assert client.ask(MetadataRequest(topics=[]), 1).topics == []


def test_asking_for_a_topic_makes_it_and_the_next_answer_shows_it(client):
    name = fresh_name()
    assert client.metadata(name).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.metadata(name, auto_create=True).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(client.metadata(name).topics[0].partitions) == 2
    bad = client.metadata("no/such/name", auto_create=True).topics[0]
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topics_are_not_made_by_asking_where_that_is_off():
    with Broker(settings={"auto.create.topics.enable": False}) as broker, Client(broker.bootstrap) as client:
        for _ in range(2):
            found = client.metadata("wished", auto_create=True).topics[0]
            assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_is_found_by_its_id(broker, client):
    name = fresh_name()
    broker.create_topic(name)
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=client.topic_id(name), name=None)])
    assert client.ask(by_id, 12).topics[0].name == name
    unknown = MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"x" * 16, name=None)])
    assert client.ask(unknown, 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_authorized_operations_are_told_on_request(broker, client):
    name = fresh_name()
    broker.create_topic(name)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = client.ask(request, 10)
    assert response.topics[0].topic_authorized_operations == 0b1101_1111_1000
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000
    assert client.metadata(name).topics[0].topic_authorized_operations == -(1 << 31)


# issue 16: what anybody may create has an end
def test_there_are_no_more_partitions_than_the_setting_allows_however_they_are_made():
    with (
        Broker(settings={"num.partitions": 8, "seamark.max.partitions": 20}) as broker,
        Client(broker.bootstrap) as client,
    ):

        def count() -> int:
            return broker._server.cluster.partition_total

        client.metadata("made-by-asking", auto_create=True)
        assert count() == 8
        assert create(client, wanted("a", 8)).error_code == ErrorCode.NONE
        refused = create(client, wanted("b", 5))
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        assert "seamark.max.partitions=20" in refused.error_message
        assert create(client, wanted("b", 5), validate_only=True).error_code == ErrorCode.POLICY_VIOLATION
        assert client.metadata("asked", auto_create=True).topics[0].error_code == ErrorCode.POLICY_VIOLATION
        grown = CreatePartitionsRequest(topics=[CreatePartitionsRequestTopic(name="a", count=13, assignments=None)])
        assert client.ask(grown).results[0].error_code == ErrorCode.POLICY_VIOLATION
        with pytest.raises(UsageError, match=r"seamark\.max\.partitions"):
            broker.create_topic("c", 5)
        # The first of one request that have room are made.
        several = CreateTopicsRequest(topics=[wanted("d", 3), wanted("e", 3), wanted("f", 1)])
        codes = {topic.name: topic.error_code for topic in client.ask(several).topics}
        assert codes == {"d": ErrorCode.NONE, "e": ErrorCode.POLICY_VIOLATION, "f": ErrorCode.NONE}
        assert count() == 20
        client.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="a")]))
        assert count() == 12
        client.metadata("asked", auto_create=True)
        assert client.ask(grown).results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert count() == 20


def test_a_metadata_request_makes_topics_of_many_partitions_one_at_a_time():
    with Broker(settings={"num.partitions": 150}) as broker, Client(broker.bootstrap) as client:
        codes = [topic.error_code for topic in client.metadata("a", "b", auto_create=True).topics]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE]
        codes = [topic.error_code for topic in client.metadata("a", "b", auto_create=True).topics]
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_restart_counts_the_partitions_that_are_there(tmp_path):
    settings = {"seamark.max.partitions": 10}
    with Broker(data=tmp_path, settings=settings) as broker, Client(broker.bootstrap) as client:
        assert create(client, wanted("a", 6)).error_code == ErrorCode.NONE
    with Broker(data=tmp_path, settings=settings) as broker, Client(broker.bootstrap) as client:
        assert create(client, wanted("b", 5)).error_code == ErrorCode.POLICY_VIOLATION
        assert create(client, wanted("b", 4)).error_code == ErrorCode.NONE
