"""Rights over real connections: rules that requests add, how long they last, and what everybody else is told.

What each request needs is compared with Apache Kafka in tests/conformance/clients/test_security_rights_differential.py.
"""

from __future__ import annotations

import logging

import pytest

from seamark.acls import Acl
from seamark.broker import Broker
from seamark.broker.security.security import Security
from seamark.log_limits import LINES_OF_A_CAUSE
from seamark.wire.protocol.apis import api_named
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.create_acls import CreateAclsRequestCreation
from seamark.wire.protocol.messages.delete_acls import DeleteAclsRequestFilter
from seamark.wire.protocol.messages.metadata import MetadataRequestTopic
from tests.support.capture import Wire

EVERYTHING = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
              "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip
USERS = {"admin": "a", "alice": "b"}


class LoggedIn(Wire):
    def __init__(self, broker, user):
        super().__init__(broker.bootstrap)
        self.ask("SaslHandshake", 1, mechanism="PLAIN")
        token = f"\0{user}\0{USERS[user]}".encode()
        assert self.ask("SaslAuthenticate", 1, auth_bytes=token).error_code == 0

    def ask(self, name, version, **fields):
        api = api_named(name)
        answer = self.exchange(encode_request(api.request(**fields), version, 7, "tests"))
        return decode_response(api.response, answer[4:], version)[1]

    def topic_error(self, name):
        asked = [MetadataRequestTopic(name=name)]
        return self.ask("Metadata", 4, topics=asked, allow_auto_topic_creation=False).topics[0].error_code

    def find(self, group):
        return self.ask("FindCoordinator", 2, key=group)

    def create(self, **fields):
        rule = {"resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3, "principal": "User:alice",
                "host": "*", "operation": 3, "permission_type": 3, **fields}  # fmt: skip
        answer = self.ask("CreateAcls", 3, creations=[CreateAclsRequestCreation(**rule)])
        return answer.results[0].error_code


def restricted():
    return Broker(security=Security(users=USERS, super_users=["User:admin"]))


def test_rules_take_effect_at_once_on_open_connections_and_end_with_their_removal():
    with restricted() as broker:
        broker.create_topic("orders")
        with LoggedIn(broker, "admin") as admin, LoggedIn(broker, "alice") as alice:
            assert alice.topic_error("orders") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert admin.create() == 0
            assert admin.create() == 0
            assert alice.topic_error("orders") == 0
            described = admin.ask("DescribeAcls", 3, **EVERYTHING).resources
            assert [(each.resource_name, len(each.acls)) for each in described] == [("orders", 1)]
            removed = admin.ask("DeleteAcls", 3, filters=[DeleteAclsRequestFilter(**EVERYTHING)] * 2)
            assert [len(each.matching_acls) for each in removed.filter_results] == [1, 1]
            assert alice.topic_error("orders") == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_rules_outlive_the_process(tmp_path):
    security = Security(users=USERS, super_users=["User:admin"], acls=[Acl("User:alice", "READ", "GROUP", "g")])
    with Broker(data=tmp_path, security=security) as broker, LoggedIn(broker, "admin") as admin:
        broker.create_topic("orders")
        assert admin.create() == 0
    with Broker(data=tmp_path, security=security) as broker, LoggedIn(broker, "alice") as alice:
        assert alice.topic_error("orders") == 0
        assert alice.find("g").error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED
        # The value that the broker was started with has no part in what requests changed.
        assert len(security.acls) == 1


GIVEN = Acl("User:alice", "READ", "GROUP", "g")


def guarded(tmp_path, *acls):
    return Broker(data=tmp_path, security=Security(users=USERS, super_users=["User:admin"], acls=acls))


def test_a_rule_that_is_no_longer_given_at_start_is_gone_although_requests_created_others(tmp_path):
    with guarded(tmp_path, GIVEN) as broker, LoggedIn(broker, "admin") as admin:
        broker.create_topic("orders")
        assert admin.create() == 0
    with guarded(tmp_path) as broker, LoggedIn(broker, "alice") as alice, LoggedIn(broker, "admin") as admin:
        assert alice.find("g").error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert alice.topic_error("orders") == 0
        assert [each.resource_name for each in admin.ask("DescribeAcls", 3, **EVERYTHING).resources] == ["orders"]


def test_a_rule_that_was_given_at_start_and_created_too_stays_when_it_is_no_longer_given(tmp_path):
    with guarded(tmp_path, GIVEN) as broker, LoggedIn(broker, "admin") as admin:
        assert admin.create(resource_type=3, resource_name="g") == 0
    with guarded(tmp_path) as broker, LoggedIn(broker, "alice") as alice:
        assert alice.find("g").error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_deleting_a_rule_that_was_given_at_start_is_refused_with_the_remedy(tmp_path):
    with guarded(tmp_path, GIVEN) as broker, LoggedIn(broker, "admin") as admin, LoggedIn(broker, "alice") as alice:
        assert admin.create() == 0
        assert len(admin.ask("DescribeAcls", 3, **EVERYTHING).resources) == 2
        (answer,) = admin.ask("DeleteAcls", 3, filters=[DeleteAclsRequestFilter(**EVERYTHING)]).filter_results
        assert answer.error_code == 0
        told = {rule.resource_name: (rule.error_code, rule.error_message) for rule in answer.matching_acls}
        assert told["orders"] == (0, None)
        assert told["g"][0] == ErrorCode.POLICY_VIOLATION
        assert "given when the broker was started" in told["g"][1]
        assert alice.find("g").error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED
        # The remedy of the sentence: a rule that denies wins, at once.
        assert admin.create(resource_type=3, resource_name="g", permission_type=2, operation=2) == 0
        assert alice.find("g").error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_deleting_a_rule_that_was_given_and_created_deletes_the_copy_and_says_that_it_stays(tmp_path):
    with guarded(tmp_path, GIVEN) as broker, LoggedIn(broker, "admin") as admin, LoggedIn(broker, "alice") as alice:
        assert admin.create(resource_type=3, resource_name="g") == 0
        sentences = []
        for _ in range(2):
            (answer,) = admin.ask("DeleteAcls", 3, filters=[DeleteAclsRequestFilter(**EVERYTHING)]).filter_results
            (rule,) = answer.matching_acls
            assert rule.error_code == ErrorCode.POLICY_VIOLATION
            sentences.append(rule.error_message)
        assert "that CreateAcls made is deleted, but stays in effect" in sentences[0]
        assert "CreateAcls" not in sentences[1]
        assert "given when the broker was started" in sentences[1]
        assert alice.find("g").error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED
    with guarded(tmp_path) as broker, LoggedIn(broker, "alice") as alice:
        assert alice.find("g").error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_rules_of_a_state_file_that_mixed_both_kinds_are_kept_and_said(tmp_path, caplog):
    with guarded(tmp_path, GIVEN) as broker:
        state = broker._server.cluster.state
        state.sections["acls"] = [rule.to_json() for rule in (GIVEN, Acl("User:alice", "READ", "TOPIC", "orders"))]
        del state.sections["created_acls"]
        broker.create_topic("orders")
    with guarded(tmp_path, GIVEN) as broker, LoggedIn(broker, "alice") as alice:
        assert alice.topic_error("orders") == 0
    assert caplog.text.count("1 access rule of the state file is not among those given at start") == 1
    assert "User:alice READ TOPIC orders" in caplog.text
    with guarded(tmp_path) as broker, LoggedIn(broker, "alice") as alice:
        assert alice.topic_error("orders") == 0
        assert alice.find("g").error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert caplog.text.count("not among those given at start") == 1


def test_an_unauthorized_caller_learns_nothing_and_creates_nothing():
    # B12, B14, L1, L3
    with restricted() as broker, LoggedIn(broker, "alice") as alice, LoggedIn(broker, "admin") as admin:
        answer = alice.find("g")
        assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert (answer.node_id, answer.host, answer.port) == (-1, "", -1)
        transaction = alice.ask("FindCoordinator", 2, key="tx", key_type=1)
        assert transaction.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (transaction.node_id, transaction.host) == (-1, "")
        assert admin.ask("Metadata", 4, topics=None).topics == []
        admin.find("g")
        assert [topic.name for topic in admin.ask("Metadata", 4, topics=None).topics] == ["__consumer_offsets"]


def test_denials_are_logged_once_per_connection_and_counted(caplog):
    caplog.set_level(logging.INFO, "seamark")
    with restricted() as broker:
        with LoggedIn(broker, "alice") as alice:
            for _ in range(3):
                alice.find("g")
        assert caplog.text.count("User:alice from 127.0.0.1 is denied DESCRIBE on GROUP g") == 1
        assert broker._server.security.counts.denials == 3


def test_a_client_that_asks_for_many_names_leaves_a_few_lines_and_little_memory(caplog):
    caplog.set_level(logging.INFO, "seamark")
    with restricted() as broker, LoggedIn(broker, "alice") as alice:
        for number in range(30):
            assert alice.find(f"{number}{'x' * 5000}").error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        (session,) = [each.session for each in broker._server.nodes[0].connections._open]
        assert not session._decisions
    lines = [line for line in caplog.messages if "is denied DESCRIBE on GROUP" in line]
    assert len(lines) == LINES_OF_A_CAUSE
    assert max(map(len, lines)) < 500


@pytest.mark.parametrize(
    "wrong",
    [{"resource_name": ""}, {"principal": "alice"}, {"resource_type": 4}, {"resource_type": 99}, {"operation": 0}],
)
def test_a_rule_that_cannot_be_is_refused(wrong):
    with restricted() as broker, LoggedIn(broker, "admin") as admin:
        assert admin.create(**wrong) == ErrorCode.INVALID_REQUEST
        assert admin.ask("DescribeAcls", 1, **EVERYTHING).resources == []


def test_without_an_authorizer_there_are_no_rules_to_talk_about():
    with Broker(security=Security(users=USERS)) as broker, LoggedIn(broker, "alice") as alice:
        assert alice.ask("DescribeAcls", 2, **EVERYTHING).error_code == ErrorCode.SECURITY_DISABLED
        assert alice.create() == ErrorCode.SECURITY_DISABLED
        answer = alice.ask("DeleteAcls", 2, filters=[DeleteAclsRequestFilter(**EVERYTHING)])
        assert answer.filter_results[0].error_code == ErrorCode.SECURITY_DISABLED


def test_listening_to_other_machines_needs_security_or_a_word():
    with pytest.raises(Exception, match="insecure"):
        Broker(listen="0.0.0.0:0")
    with Broker(listen="0.0.0.0:0", security=Security(users=USERS)) as broker:
        assert broker.bootstrap
