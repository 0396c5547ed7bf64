"""The same requests by users with few rights, against Apache Kafka's StandardAuthorizer and against ours.

B12 to B14, L1 to L4.

Both brokers are started with the same settings. An administrator sets up topics, groups and rules; then a user who has
almost none of the rights asks, and the transcripts are compared field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from seamark.acls import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from seamark.broker import Broker
from seamark.wire.protocol.apis import api_named
from seamark.wire.protocol.frames import decode_response
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeResponse
from seamark.wire.records import Record, encode_batch
from tests.conformance.differential.group_requests import join_fields, subscription
from tests.conformance.differential.script import Entry, Recorder, differences
from tests.support.apache_kafka import ApacheKafka
from tests.support.capture import Wire, framed

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-secret" user_admin="admin-secret" user_alice="alice-secret";'
)
SETTINGS = {
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Kafka's controller listener is without SASL.
    "super.users": "User:admin;User:ANONYMOUS",
}
ALICE = "User:alice"
PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret"}


class LoggedIn(Recorder):
    """Asks as alice; on connections whose name begins with "admin" as the administrator."""

    def _wire(self, on: str) -> Wire:
        is_new = on not in self._wires
        wire = super()._wire(on)
        if is_new:
            user = "admin" if on.startswith(("admin", "aside")) else "alice"
            wire.send(self._frame("SaslHandshake", 1, {"mechanism": "PLAIN"}))
            handshake = decode_response(SaslHandshakeResponse, wire.receive()[4:], 1)[1]
            assert handshake.error_code == 0
            token = f"\0{user}\0{PASSWORDS[user]}".encode()
            wire.send(self._frame("SaslAuthenticate", 2, {"auth_bytes": token}))
            answer = decode_response(SaslAuthenticateResponse, wire.receive()[4:], 2)[1]
            assert answer.error_code == 0
        return wire

    def cut(self, name: str, count: int) -> str:
        """The beginning of a name, without its last characters."""
        shorter = name[:-count]
        self._names[shorter] = f"{self._names[name]} less {count}"
        return shorter

    def _normal(self, value: Any, path: str, is_unordered: bool) -> Any:
        found = super()._normal(value, path, is_unordered)
        # Rules come in the order of a hash map, and deletions are shuffled on purpose.
        unordered = ("Acls.resources", ".matching_acls", "DeleteTopics.responses")
        return sorted(found, key=repr) if path.endswith(unordered) else found

    def grant(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        pattern: PatternType = PatternType.LITERAL,
        permission: PermissionType = PermissionType.ALLOW,
        principal: str = ALICE,
        host: str = "*",
    ) -> None:
        """Add a rule, and wait until the broker goes by it."""
        rule = {
            "resource_type": resource_type, "resource_name": name, "resource_pattern_type": pattern,
            "principal": principal, "host": host, "operation": operation, "permission_type": permission,
        }  # fmt: skip
        answer = self.quietly("CreateAcls", 3, creations=[rule])
        assert [each.error_code for each in answer.results] == [0]
        wanted = {
            "resource_type_filter": resource_type, "resource_name_filter": name, "pattern_type_filter": pattern,
            "principal_filter": principal, "host_filter": host, "operation": operation, "permission_type": permission,
        }  # fmt: skip
        self.until(lambda: len(self.quietly("DescribeAcls", 3, **wanted).resources) == 1, "the rule is known")


def batch() -> bytes:
    return bytes(encode_batch([Record(0, 1, key=b"k", value=b"v")]))


def _produce(topic: str, **more: Any) -> dict[str, Any]:
    return {"acks": 1, "timeout_ms": 5000,
            "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": batch()}]}], **more}  # fmt: skip


def _fetch(*topics: str) -> dict[str, Any]:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}]
    return {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 100_000, "session_id": 0,
            "session_epoch": -1, "topics": [{"topic": name, "partitions": partitions} for name in topics]}  # fmt: skip


def _commit(group: str, *topics: str) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1,
                   "committed_metadata": ""}]  # fmt: skip
    return {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "",
            "topics": [{"name": name, "partitions": partitions} for name in topics]}  # fmt: skip


def groups_without_rights(recorder: LoggedIn) -> None:
    """L1, L4: nothing of a group without a right to it."""
    group, topic = recorder.name("g"), recorder.create_topic("t")
    recorder.coordinate(group)
    ask = recorder.ask
    for version in (0, 3):
        ask("FindCoordinator", version, key=group)
    ask("FindCoordinator", 4, key_type=0, coordinator_keys=[group])
    ask("FindCoordinator", 3, "of a transactional id", key="tx", key_type=1)
    for version in (0, 4, 9):
        ask("JoinGroup", version, **join_fields(group, version=version))
    ask("SyncGroup", 3, group_id=group, generation_id=1, member_id="m")
    ask("Heartbeat", 4, group_id=group, generation_id=1, member_id="m")
    ask("LeaveGroup", 2, group_id=group, member_id="m")
    ask("LeaveGroup", 4, group_id=group, members=[{"member_id": "m"}])
    ask("OffsetCommit", 8, **_commit(group, topic, "not.there"))
    asked = [{"name": topic, "partition_indexes": [0]}]
    ask("OffsetFetch", 1, group_id=group, topics=asked)
    ask("OffsetFetch", 7, group_id=group, topics=asked)
    ask("OffsetFetch", 7, "of all", group_id=group, topics=None)
    ask("OffsetFetch", 8, groups=[{"group_id": group, "topics": asked}, {"group_id": "x", "topics": None}])
    ask("DescribeGroups", 5, groups=[group, "x"], include_authorized_operations=True)
    ask("ListGroups", 4)
    ask("DeleteGroups", 2, groups_names=[group, "x"])
    ask("OffsetDelete", 0, group_id=group, topics=[{"name": topic, "partitions": [{"partition_index": 0}]}])
    ask("ConsumerGroupDescribe", 0, group_ids=[group])


def groups_with_some_topics(recorder: LoggedIn) -> None:
    """L4: topics are refused one by one, whether they exist or not, and are left out of a list of all."""
    group = recorder.name("g")
    seen, hidden = recorder.create_topic("seen"), recorder.create_topic("hidden")
    recorder.coordinate(group)
    recorder.quietly("OffsetCommit", 8, **_commit(group, seen, hidden))
    recorder.grant(Operation.READ, ResourceType.GROUP, group)
    recorder.grant(Operation.READ, ResourceType.TOPIC, seen)
    ask = recorder.ask
    ask("FindCoordinator", 4, key_type=0, coordinator_keys=[group, "other"])
    ask("OffsetCommit", 8, **_commit(group, hidden, seen, "not.there"))
    ask("OffsetCommit", 8, "of refused topics only", **_commit(group, hidden, "not.there"))
    asked = [{"name": name, "partition_indexes": [0]} for name in (hidden, seen, "not.there")]
    ask("OffsetFetch", 5, group_id=group, topics=asked)
    ask("OffsetFetch", 7, "of all", group_id=group, topics=None)
    ask("OffsetFetch", 8, groups=[{"group_id": group, "topics": asked}])
    ask("OffsetFetch", 8, "of all", groups=[{"group_id": group, "topics": None}])
    ask("DescribeGroups", 5, groups=[group], include_authorized_operations=True)
    ask("DeleteGroups", 2, "without the right to delete", groups_names=[group])
    deleted = [{"name": name, "partitions": [{"partition_index": 0}]} for name in (hidden, seen)]
    ask("OffsetDelete", 0, "without the right to delete", group_id=group, topics=deleted)
    recorder.grant(Operation.DELETE, ResourceType.GROUP, group)
    ask("OffsetDelete", 0, group_id=group, topics=deleted)
    ask("DescribeGroups", 5, "may delete now", groups=[group], include_authorized_operations=True)
    ask("DeleteGroups", 2, groups_names=[group])
    joined = ask("JoinGroup", 3, **join_fields(group, version=3, protocols=[
        {"name": "range", "metadata": subscription(hidden)}]))  # fmt: skip
    assert joined.error_code == 0


def topics_without_rights(recorder: LoggedIn) -> None:
    """A topic without a right is as one that was never there, and none is made."""
    topic = recorder.create_topic("t")
    recorder.quietly("Produce", 7, **_produce(topic))
    ask = recorder.ask
    for version in (4, 9):
        ask("Metadata", version, topics=[{"name": topic}, {"name": "not.there"}], allow_auto_topic_creation=True)
    ask("Metadata", 8, "with rights", topics=[{"name": topic}], include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True, allow_auto_topic_creation=False)  # fmt: skip
    ask("Produce", 7, **_produce(topic))
    ask("Produce", 7, "not there", **_produce("not.there"))
    for version in (4, 11):
        ask("Fetch", version, **_fetch(topic, "not.there"))
    ask("ListOffsets", 5, replica_id=-1, isolation_level=0,
        topics=[{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}
                for name in (topic, "not.there")])  # fmt: skip
    ask("OffsetForLeaderEpoch", 3, replica_id=-1,
        topics=[{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}])  # fmt: skip
    ask("CreateTopics", 5, topics=[{"name": recorder.name("new"), "num_partitions": 1, "replication_factor": 1}],
        timeout_ms=5000)  # fmt: skip
    ask("CreatePartitions", 3, topics=[{"name": topic, "count": 2}], timeout_ms=5000)
    ask("DeleteTopics", 5, topic_names=[topic, "not.there"], timeout_ms=5000)
    ask("DeleteRecords", 2, topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}],
        timeout_ms=5000)  # fmt: skip
    ask("DescribeConfigs", 4, resources=[{"resource_type": 2, "resource_name": topic}])
    ask("IncrementalAlterConfigs", 1, resources=[{"resource_type": 2, "resource_name": topic, "configs": [
        {"name": "retention.ms", "config_operation": 0, "value": "1000"}]}])  # fmt: skip
    ask("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1000)


def topics_with_single_rights(recorder: LoggedIn) -> None:
    """What each right is good for, and what it implies."""
    ask = recorder.ask
    numbers = {"transactional_id": None, "transaction_timeout_ms": 1000}
    recorder.until(lambda: recorder.quietly("InitProducerId", 4, **numbers).error_code == 0, "producer ids are there")
    for operation in (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.ALTER, Operation.DELETE,
                      Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS):  # fmt: skip
        topic = recorder.create_topic(operation.name)
        recorder.quietly("Produce", 7, **_produce(topic))
        recorder.grant(operation, ResourceType.TOPIC, topic)
        note = f"with {operation.name}"
        ask("Metadata", 8, note, topics=[{"name": topic}], include_topic_authorized_operations=True)
        ask("Produce", 7, note, **_produce(topic))
        ask("Fetch", 11, note, **_fetch(topic))
        ask("ListOffsets", 5, note, replica_id=-1, isolation_level=0,
            topics=[{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}])  # fmt: skip
        ask("OffsetForLeaderEpoch", 3, note, replica_id=-1,
            topics=[{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}])  # fmt: skip
        ask("InitProducerId", 4, note, transactional_id=None, transaction_timeout_ms=1000)
        ask("IncrementalAlterConfigs", 1, note, validate_only=True, resources=[{"resource_type": 2,
            "resource_name": topic, "configs": [
                {"name": "retention.ms", "config_operation": 0, "value": "1000"}]}])  # fmt: skip
        answer = ask("DescribeConfigs", 4, note, resources=[{"resource_type": 2, "resource_name": topic,
            "configuration_keys": ["retention.ms"]}])  # fmt: skip
        assert answer is not None
        ask("CreatePartitions", 3, note, topics=[{"name": topic, "count": 2}], timeout_ms=5000, validate_only=True)
        ask("DeleteRecords", 2, note, topics=[{"name": topic, "partitions": [
            {"partition_index": 0, "offset": 0}]}], timeout_ms=5000)  # fmt: skip
        ask("DeleteTopics", 5, note, topic_names=[topic], timeout_ms=5000)


def topics_by_id(recorder: LoggedIn) -> None:
    """Ids tell no more than names do; a list of all topics leaves out what may not be seen."""
    ask = recorder.ask
    topics = {label: recorder.create_topic(label) for label in ("seen", "described", "hidden")}
    recorder.grant(Operation.READ, ResourceType.TOPIC, topics["seen"])
    recorder.grant(Operation.DESCRIBE, ResourceType.TOPIC, topics["described"])
    names = [{"name": name} for name in topics.values()]
    ids = {each.name: each.topic_id for each in recorder.quietly("Metadata", 12, topics=names).topics}
    everything = recorder.quietly("Metadata", 12, on="main", topics=None)
    shown = {each.name for each in everything.topics if each.name in ids}
    assert shown == {topics["seen"], topics["described"]}
    for name, label in ((name, label) for label, name in topics.items()):
        ask("Metadata", 12, f"id of {label}", topics=[{"name": None, "topic_id": ids[name]}])
        partitions = _fetch(name)["topics"][0]["partitions"]
        fetch = {**_fetch(), "topics": [{"topic_id": ids[name], "partitions": partitions}]}
        del fetch["replica_id"]
        for version in (13, 17):
            ask("Fetch", version, f"id of {label}", **fetch)
        # A session that begins without a right keeps the partition with its error.
        session = ask("Fetch", 13, f"session of {label}", **{**fetch, "session_epoch": 0})
        ask("Fetch", 13, f"session of {label} goes on", **{
            **fetch, "session_id": session.session_id, "session_epoch": 1, "topics": []})  # fmt: skip
        ask("DeleteTopics", 6, f"id of {label}", topics=[{"name": None, "topic_id": ids[name]}], timeout_ms=5000)


def rights_of_the_cluster(recorder: LoggedIn) -> None:
    ask = recorder.ask
    wanted = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
              "principal_filter": "User:none-has-this", "host_filter": None, "operation": 1,
              "permission_type": 1}  # fmt: skip
    rule = {"resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:none",
            "host": "*", "operation": 3, "permission_type": 3}  # fmt: skip
    ask("DescribeAcls", 2, **wanted)
    ask("CreateAcls", 2, creations=[rule])
    ask("DeleteAcls", 2, filters=[wanted])
    ask("DescribeConfigs", 4, resources=[{"resource_type": 4, "resource_name": "1"}])
    ask("IncrementalAlterConfigs", 1, resources=[{"resource_type": 4, "resource_name": "1", "configs": [
        {"name": "message.max.bytes", "config_operation": 0, "value": "1000"}]}])  # fmt: skip
    answer = ask("DescribeCluster", 1, include_cluster_authorized_operations=True)
    assert answer.cluster_authorized_operations == 0
    for on_cluster in (Operation.DESCRIBE, Operation.ALTER, Operation.CREATE, Operation.IDEMPOTENT_WRITE):
        recorder.grant(on_cluster, ResourceType.CLUSTER, CLUSTER_NAME)
        note = f"with {on_cluster.name}"
        ask("Metadata", 8, note, topics=[], include_cluster_authorized_operations=True)
        ask("DescribeAcls", 2, note, **wanted)
        ask("DeleteAcls", 2, note, filters=[wanted])
        ask("InitProducerId", 4, note, transactional_id="tx", transaction_timeout_ms=1000)
    for bad in ({"resource_type": 1}, {"operation": 1}, {"resource_pattern_type": 2}, {"resource_name": ""},
                {"resource_type": 4}, {"permission_type": 1}):  # fmt: skip
        answer = ask("CreateAcls", 2, f"{bad}", creations=[{**rule, **bad}])
    created = ask("CreateTopics", 5, "may create in the cluster", topics=[
        {"name": recorder.name("new"), "num_partitions": 1, "replication_factor": 1}], timeout_ms=5000)  # fmt: skip
    assert created.topics[0].error_code == 0
    # The next script's users have no more rights than before.
    removed = {**wanted, "resource_type_filter": 4, "principal_filter": ALICE}
    recorder.quietly("DeleteAcls", 2, filters=[removed])
    recorder.until(lambda: not recorder.quietly("DescribeAcls", 2, **removed).resources, "no rule is left")


def patterns_and_denials(recorder: LoggedIn) -> None:
    """Prefixes, the wildcard, denials that win, hosts, and everybody."""
    ask = recorder.ask
    prefix = recorder.name("orders")
    names = [recorder.create_topic(label) for label in ("one", "two", "three", "four", "five")]
    recorder.grant(Operation.READ, ResourceType.TOPIC, recorder.cut(names[0], 4), pattern=PatternType.PREFIXED)
    recorder.grant(Operation.ALL, ResourceType.TOPIC, names[1])
    recorder.grant(Operation.WRITE, ResourceType.TOPIC, names[1], permission=PermissionType.DENY)
    recorder.grant(Operation.READ, ResourceType.TOPIC, names[2], host="10.1.2.3")
    recorder.grant(Operation.READ, ResourceType.TOPIC, names[3], host="127.0.0.1")
    recorder.grant(Operation.READ, ResourceType.TOPIC, names[4], principal="User:*")
    recorder.grant(Operation.READ, ResourceType.TOPIC, names[4], permission=PermissionType.DENY, host="10.1.2.3")
    recorder.grant(Operation.DESCRIBE, ResourceType.GROUP, prefix, pattern=PatternType.PREFIXED)
    for name in names:
        ask("Metadata", 8, topics=[{"name": name}], include_topic_authorized_operations=True)
        ask("Fetch", 11, **_fetch(name))
        ask("Produce", 7, **_produce(name))
    for group in (f"{prefix}-1", prefix, recorder.cut(prefix, 1)):
        ask("DescribeGroups", 4, groups=[group], include_authorized_operations=True)
    recorder.grant(Operation.READ, ResourceType.TOPIC, recorder.cut(names[0], 2), pattern=PatternType.PREFIXED,
                   permission=PermissionType.DENY)  # fmt: skip
    ask("Metadata", 8, "denied by a longer prefix", topics=[{"name": names[0]}],
        include_topic_authorized_operations=True)  # fmt: skip
    for pattern in (PatternType.MATCH, PatternType.ANY, PatternType.LITERAL, PatternType.PREFIXED):
        ask("DescribeAcls", 2, f"by {pattern.name}", on="admin", resource_type_filter=2,
            resource_name_filter=names[0], pattern_type_filter=pattern, principal_filter=None, host_filter=None,
            operation=1, permission_type=1)  # fmt: skip
    ask("DeleteAcls", 2, "of one topic", on="admin", filters=[
        {"resource_type_filter": 2, "resource_name_filter": names[1], "pattern_type_filter": 3,
         "principal_filter": ALICE, "host_filter": None, "operation": 1, "permission_type": 2}])  # fmt: skip


SCRIPTS = (groups_without_rights, groups_with_some_topics, topics_without_rights, topics_with_single_rights,
           topics_by_id, rights_of_the_cluster, patterns_and_denials)  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0, **SETTINGS}) as running:
        yield running


def transcript(script: Callable[[LoggedIn], None], bootstrap: str) -> list[Entry]:
    recorder = LoggedIn(bootstrap)
    try:
        script(recorder)
        return recorder.transcript()
    finally:
        recorder.close()


# What is not compared: texts for people, ids, times and numbers that a broker makes up, and where a topic lives.
_NOT_COMPARED = ("message", "topic_id", "cluster_id", "node_id", "host", "port", "brokers", "nodes", "leader",
                 "replica", "isr", "producer_id", "throttle", "controller", "timestamp", "records", "offset_metadata",
                 "endpoint", "session_id", "synonyms", "documentation")  # fmt: skip


def is_compared(path: str) -> bool:
    last = path.rsplit(".", 1)[-1].replace("[]", "")
    return not any(part in last for part in _NOT_COMPARED) and "brokers" not in path


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_user_with_few_rights_gets_the_answers_that_kafka_gives(script, apache_kafka_with, broker):
    kafka: ApacheKafka = apache_kafka_with(SETTINGS)
    theirs = transcript(script, kafka.bootstrap)
    ours = transcript(script, broker.bootstrap)
    found = [str(each) for each in differences(theirs, ours) if is_compared(each.path)]
    assert not found, "\n".join(found)


def test_only_the_three_apis_of_the_login_are_answered_before_it(broker):
    for name in ("Metadata", "FindCoordinator", "Produce", "SaslAuthenticate"):
        with Wire(broker.bootstrap) as wire:
            request = api_named(name)
            wire.send(framed(bytes((0, request.key, 0, 4, 0, 0, 0, 1, 0xFF, 0xFF)) + b"\0" * 30))
            assert wire.is_closed_by_peer(5)
