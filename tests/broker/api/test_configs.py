"""DescribeConfigs and IncrementalAlterConfigs over real sockets, DescribeCluster and InitProducerId beside them."""

import pytest

from seamark import Broker
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.describe_cluster import DescribeClusterRequest
from seamark.wire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from seamark.wire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from seamark.wire.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.support.broker_driver import Client, batch_of, fresh_name

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(scope="module")
def broker():
    with Broker(settings={"log.retention.hours": 1, "message.max.bytes": 5000}) as running:
        yield running


@pytest.fixture
def client(broker):
    with Client(broker.bootstrap) as connected:
        yield connected


@pytest.fixture
def topic(broker):
    name = fresh_name()
    broker.create_topic(name, config={"segment.ms": 60_000})
    return name


def describe(client, kind, name, keys=None, *, version=4, synonyms=True):
    resource = DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)
    return client.ask(request, version).results[0]


def alter(client, kind, name, *changes, validate_only=False, version=1):
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequestConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return client.ask(request, version).responses[0]


def value_of(client, topic, key):
    return describe(client, TOPIC, topic, [key]).configs[0].value


@pytest.mark.parametrize("version", range(1, 5))
def test_a_value_is_described_with_where_it_comes_from(client, topic, version):
    found = {config.name: config for config in describe(client, TOPIC, topic, version=version).configs}
    assert len(found) > 25
    assert (found["segment.ms"].value, found["segment.ms"].config_source) == ("60000", 1)
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("3600000", 4)
    assert (found["max.message.bytes"].value, found["max.message.bytes"].config_source) == ("5000", 4)
    assert (found["min.cleanable.dirty.ratio"].value, found["preallocate"].value) == ("0.5", "false")
    assert found["cleanup.policy"].config_source == 5
    assert [(s.name, s.value, s.source) for s in found["max.message.bytes"].synonyms] == [
        ("message.max.bytes", "5000", 4),
        ("message.max.bytes", "1048588", 5),
    ]
    if version >= 3:
        types = {name: found[name].config_type for name in ("segment.ms", "cleanup.policy", "preallocate")}
        assert types == {"segment.ms": 5, "cleanup.policy": 7, "preallocate": 1}


def test_single_keys_are_described_without_synonyms_unless_asked(client, topic):
    found = describe(client, TOPIC, topic, ["retention.ms", "nonsense"], synonyms=False).configs
    assert [(config.name, config.synonyms) for config in found] == [("retention.ms", [])]


def test_what_does_not_exist_is_not_described(client):
    assert describe(client, TOPIC, "missing").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(client, TOPIC, "no/name").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(client, BROKER, "7").error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, BROKER, "x").error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, 99, "x").error_code == ErrorCode.INVALID_REQUEST


def test_a_node_describes_its_settings(client):
    found = {config.name: config for config in describe(client, BROKER, "0").configs}
    assert (found["log.retention.hours"].value, found["log.retention.hours"].config_source) == ("1", 4)
    assert (found["num.partitions"].value, found["num.partitions"].read_only) == ("1", True)
    assert not found["message.max.bytes"].read_only
    assert found["group.max.session.timeout.ms"].value == "1800000"


@pytest.mark.parametrize("version", [0, 1])
def test_a_topics_values_are_set_and_reset(client, topic, version):
    assert alter(client, TOPIC, topic, ("retention.ms", SET, "7000"), version=version).error_code == 0
    assert value_of(client, topic, "retention.ms") == "7000"
    assert alter(client, TOPIC, topic, ("retention.ms", DELETE, None), version=version).error_code == 0
    assert value_of(client, topic, "retention.ms") == "3600000"


def test_lists_grow_and_shrink(client, topic):
    alter(client, TOPIC, topic, ("cleanup.policy", APPEND, "compact"))
    assert value_of(client, topic, "cleanup.policy") == "delete,compact"
    alter(client, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"))
    assert value_of(client, topic, "cleanup.policy") == "compact"
    refused = alter(client, TOPIC, topic, ("retention.ms", APPEND, "1"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("nonsense", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], ErrorCode.UNKNOWN_SERVER_ERROR),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "9"), ("segment.bytes", SET, "-9")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_change_that_cannot_be_changes_nothing(client, topic, changes, code):
    assert alter(client, TOPIC, topic, *changes).error_code == code
    assert value_of(client, topic, "retention.ms") == "3600000"


def test_a_dry_run_changes_nothing(client, topic):
    assert alter(client, TOPIC, topic, ("retention.ms", SET, "1"), validate_only=True).error_code == 0
    assert value_of(client, topic, "retention.ms") == "3600000"


def test_a_change_takes_effect_at_once(client, topic):
    assert client.produce(topic, batch_of(b"x" * 500)).error_code == 0
    alter(client, TOPIC, topic, ("max.message.bytes", SET, "100"))
    assert client.produce(topic, batch_of(b"x" * 500)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    alter(client, TOPIC, topic, ("message.timestamp.type", SET, "LogAppendTime"))
    assert client.produce(topic, batch_of(b"x")).log_append_time_ms > 0


def test_a_change_to_the_broker_reaches_the_topics(client, topic):
    assert alter(client, BROKER, "0", ("message.max.bytes", SET, "150")).error_code == 0
    assert client.produce(topic, batch_of(b"x" * 500)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert describe(client, TOPIC, topic, ["max.message.bytes"]).configs[0].config_source == 2
    assert alter(client, BROKER, "", ("message.max.bytes", SET, "4000")).error_code == 0
    found = describe(client, TOPIC, topic, ["max.message.bytes"]).configs[0]
    assert [(s.value, s.source) for s in found.synonyms] == [("150", 2), ("4000", 3), ("5000", 4), ("1048588", 5)]
    shown = {config.name: config.value for config in describe(client, BROKER, "").configs}
    assert shown == {"message.max.bytes": "4000", "min.insync.replicas": "1"}
    assert alter(client, BROKER, "0", ("message.max.bytes", DELETE, None)).error_code == 0
    assert client.produce(topic, batch_of(b"x" * 500)).error_code == 0
    assert alter(client, BROKER, "", ("message.max.bytes", DELETE, None)).error_code == 0


def test_settings_that_are_fixed_stay(client):
    assert alter(client, BROKER, "0", ("num.partitions", SET, "4")).error_code == ErrorCode.INVALID_REQUEST
    assert alter(client, BROKER, "0", ("a.plugins.key", SET, "4")).error_code == 0
    assert alter(client, TOPIC, "missing", ("retention.ms", SET, "4")).error_code == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_described(broker, client, version):
    found = client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (found.error_code, found.controller_id, len(found.brokers)) == (0, 0, 1)
    assert found.cluster_id == client.metadata().cluster_id
    assert found.cluster_authorized_operations == 0b1_1111_1010_0000


def test_a_broker_is_no_controller(client):
    refused = client.ask(DescribeClusterRequest(endpoint_type=2), 1)
    assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert client.ask(DescribeClusterRequest(endpoint_type=3), 1).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


@pytest.mark.parametrize("version", range(6))
def test_each_producer_gets_an_id_of_its_own(client, version):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    ids = [client.ask(request, version) for _ in range(3)]
    assert len({answer.producer_id for answer in ids}) == 3
    assert {(answer.error_code, answer.producer_epoch) for answer in ids} == {(0, 0)}


def test_transactions_are_refused_at_once(client):
    refused = client.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000))
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refused.producer_id == -1
    empty = client.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000))
    assert empty.error_code == ErrorCode.INVALID_REQUEST
