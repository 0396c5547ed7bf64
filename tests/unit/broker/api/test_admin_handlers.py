"""Configurations, access rules, logins and what a client asks first, on a cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest

from seamark.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from seamark.broker.security.security import Security
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest
from seamark.wire.protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from seamark.wire.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from seamark.wire.protocol.messages.describe_acls import DescribeAclsRequest
from seamark.wire.protocol.messages.describe_cluster import DescribeClusterRequest
from seamark.wire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from seamark.wire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from seamark.wire.protocol.messages.list_groups import ListGroupsRequest
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.broker.api.handler_harness import Client, Served

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
ANY = 1
ALTER_CLUSTER = ("ALTER", "CLUSTER", "kafka-cluster")
DESCRIBE_CLUSTER = ("DESCRIBE", "CLUSTER", "kafka-cluster")


@pytest.fixture
def world() -> Served:
    made = Served()
    made.create_topic("t")
    return made


def described(client: Client, kind: int, name: str, *keys: str) -> Any:
    resource = DescribeConfigsRequestResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    [result] = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    return result


def alter(client: Client, kind: int, name: str, operation: int = SET, **values: str | None) -> Any:
    configs = [
        IncrementalAlterConfigsRequestConfig(name=key.replace("_", "."), config_operation=operation, value=value)
        for key, value in values.items()
    ]
    resource = IncrementalAlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=configs)
    [result] = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return result


# -- configurations


def test_a_value_is_changed_shown_with_its_source_and_taken_back(world: Served) -> None:
    client = world.client()
    for change, expected in (((SET, "1000"), ("1000", 1)), ((DELETE, None), ("604800000", 5))):
        assert alter(client, TOPIC, "t", change[0], retention_ms=change[1]).error_code == 0
        [config] = described(client, TOPIC, "t", "retention.ms").configs
        assert (config.value, config.config_source) == expected
    assert alter(client, BROKER, "0", log_retention_ms="5000").error_code == 0
    [config] = described(client, TOPIC, "t", "retention.ms").configs
    assert (config.value, config.config_source) == ("5000", 2)


@pytest.mark.parametrize(
    ("kind", "name", "operation", "right"),
    [
        (TOPIC, "t", "DESCRIBE_CONFIGS", ("TOPIC", "t")),
        (BROKER, "0", "DESCRIBE_CONFIGS", ("CLUSTER", "kafka-cluster")),
        (TOPIC, "t", "ALTER_CONFIGS", ("TOPIC", "t")),
        (BROKER, "0", "ALTER_CONFIGS", ("CLUSTER", "kafka-cluster")),
    ],
)
def test_a_configuration_is_seen_and_changed_by_who_may(
    world: Served, kind: int, name: str, operation: str, right: tuple[str, str]
) -> None:  # L4
    def ask(client: Client) -> int:
        found = described(client, kind, name) if operation == "DESCRIBE_CONFIGS" else alter(client, kind, name)
        return int(found.error_code)

    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED if kind == TOPIC else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert ask(world.client(rights=set())) == denied
    assert ask(world.client(rights={(operation, *right)})) == 0


def test_a_node_answers_for_itself_and_for_all_but_not_for_another(world: Served) -> None:
    assert described(world.client(), BROKER, "0").error_code == 0
    assert described(world.client(), BROKER, "").error_code == 0
    assert described(world.client(), BROKER, "1").error_code == ErrorCode.INVALID_REQUEST


def test_on_a_full_disk_no_value_changes(world: Served) -> None:
    world.cluster.storage.is_full = True
    assert alter(world.client(), TOPIC, "t", retention_ms="1000").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.cluster.topics["t"].config.own == {}


# -- access rules


def creation(name: str, resource_type: int = ResourceType.TOPIC) -> CreateAclsRequestCreation:
    return CreateAclsRequestCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=Operation.READ,
        permission_type=PermissionType.ALLOW,
    )


def everything() -> dict[str, Any]:
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }


def rule_names(world: Served) -> list[str]:
    client = world.client(rights={DESCRIBE_CLUSTER})
    return [each.resource_name for each in client.ask(DescribeAclsRequest(**everything()), 3).resources]


def test_rules_are_added_shown_and_removed_by_who_may_alter_the_cluster() -> None:  # L4
    world = Served(security=Security(acls=[Acl("User:bob", "READ", "TOPIC", "given")]))
    request = CreateAclsRequest(creations=[creation("a"), creation("b"), creation("c", ResourceType.CLUSTER)])
    denied = world.client(rights={DESCRIBE_CLUSTER}).ask(request, 3).results
    assert {each.error_code for each in denied} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    made = world.client(rights={ALTER_CLUSTER}).ask(request, 3).results
    assert [each.error_code for each in made] == [0, 0, ErrorCode.INVALID_REQUEST]
    assert rule_names(world) == ["a", "b", "given"]
    delete = DeleteAclsRequest(filters=[DeleteAclsRequestFilter(**everything())])
    [result] = world.client(rights={ALTER_CLUSTER}).ask(delete, 3).filter_results
    # What the broker was started with stays, and that is said.
    codes = {each.resource_name: each.error_code for each in result.matching_acls}
    assert codes == {"a": 0, "b": 0, "given": ErrorCode.POLICY_VIOLATION}
    assert rule_names(world) == ["given"]


def test_without_an_authorizer_there_are_no_rules(world: Served) -> None:
    client = world.client()
    assert client.ask(DescribeAclsRequest(**everything()), 3).error_code == ErrorCode.SECURITY_DISABLED
    [made] = client.ask(CreateAclsRequest(creations=[creation("a")]), 3).results
    assert made.error_code == ErrorCode.SECURITY_DISABLED


def test_on_a_full_disk_no_rule_is_added() -> None:
    world = Served(security=Security(acls=[]))
    world.cluster.storage.is_full = True
    [failed] = (
        world.client(rights={ALTER_CLUSTER}).ask(CreateAclsRequest(creations=[creation("a")]), 3).results
    )  # fmt: skip
    assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert rule_names(world) == []
    assert [place for place, _ in world.failures] == ["CreateAcls"]


# -- the first requests of a client


def test_every_api_is_told_with_its_versions(world: Served) -> None:
    answer = world.client().ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3)
    found = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert found[8] == (1, 9)
    assert len(found) == len(world.client().node.endpoints)


def test_a_cluster_tells_its_nodes_and_on_request_those_that_stopped() -> None:
    world = Served(nodes=2)
    stopped: Any = world.cluster.nodes[1]
    stopped.is_running = False
    for version, fields, expected in ((1, {}, [0]), (2, {"include_fenced_brokers": True}, [0, 1])):
        answer = world.client().ask(DescribeClusterRequest(**fields), version)
        assert [each.broker_id for each in answer.brokers] == expected
        assert answer.cluster_id == world.cluster.cluster_id


def login(client: Client, password: str) -> Any:
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    return client.ask(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode()), 2)


def test_a_login_opens_all_apis_and_before_it_there_are_none() -> None:
    world = Served(security=Security(users={"alice": "secret"}, mechanisms=["PLAIN"]))
    stranger = world.client()
    assert stranger.ask(ListGroupsRequest(), 3) is None
    assert stranger.closed == "asked for ListGroups before it was authenticated"
    client = world.client()
    assert login(client, "secret").error_code == 0
    assert client.max_frame_bytes == world.settings.socket_request_max_bytes
    assert client.ask(ListGroupsRequest(), 3).error_code == 0


def test_a_login_that_fails_is_answered_a_moment_later_and_ends_the_connection() -> None:
    world = Served(security=Security(users={"alice": "secret"}, mechanisms=["PLAIN"]))
    client = world.client()
    assert login(client, "wrong") is None
    assert client.is_open
    world.advance(0.2)
    assert client.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "failed to authenticate with PLAIN" in client.closed
    assert world.security.counts.failures == 1
