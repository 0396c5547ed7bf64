"""A disk that turns read-only under a running broker, as a system does to one it no longer trusts, and comes back."""

from __future__ import annotations

import errno
import os
from collections import Counter

import pytest

from seamark import Broker
from seamark.broker.security.security import Security
from seamark.storage.errors import translate
from seamark.storage.files.real import RealFile, RealFilesystem
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from seamark.wire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from seamark.wire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from seamark.wire.protocol.messages.describe_acls import DescribeAclsRequest
from seamark.wire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from seamark.wire.protocol.messages.init_producer_id import InitProducerIdRequest
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.broker_driver import Client, batch_of
from tests.support.waiting import eventually

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
TOPIC, BROKER = 2, 4


class Disk:
    """Read-only while told so: whatever would write, and opening for it, is refused as the system does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error = 0
        for owner, names in (
            (RealFile, ("append", "truncate", "sync", "detached_sync")),
            (RealFilesystem, ("open", "rename", "remove", "mkdir", "remove_directory", "sync_directory")),
        ):
            for name in names:
                monkeypatch.setattr(owner, name, self._guarded(getattr(owner, name)))

    def _guarded(self, real):
        def call(owner, *arguments, **options):
            if self.error and not options.get("read_only"):
                path = owner._path if isinstance(owner, RealFile) else arguments[0]
                raise translate(OSError(self.error, os.strerror(self.error)), path)
            return real(owner, *arguments, **options)

        return call

    def turn_read_only(self) -> None:
        self.error = errno.EROFS

    def come_back(self) -> None:
        self.error = 0


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.fixture(params=["os", "commit"])
def broker(tmp_path, disk, request):
    with Broker(data=tmp_path / "data", durability=request.param) as running:
        running.create_topic("t", 1)
        yield running
        disk.come_back()


@pytest.fixture
def client(broker):
    with Client(broker.bootstrap) as connected:
        connected.produce("t", batch_of(b"before"))
        eventually(lambda: commit(connected, 1) == 0, "a commit is taken")
        yield connected


def commit(client, offset):
    client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    return client.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 9).topics[0].partitions[0].error_code


def committed(client):
    answer = client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 8).groups[0]
    return [partition.committed_offset for topic in answer.topics for partition in topic.partitions]


def produce_code(client):
    return client.produce("t", batch_of(b"more")).error_code


def test_what_writes_is_refused_and_what_reads_goes_on(broker, client, disk):
    disk.turn_read_only()
    for _ in range(3):
        assert produce_code(client) == STORAGE_ERROR
        assert commit(client, 2) == ErrorCode.NOT_COORDINATOR
        assert client.values("t") == [b"before"]


def test_writing_goes_on_without_a_restart_once_the_disk_is_back(broker, client, disk):
    disk.turn_read_only()
    assert produce_code(client) == STORAGE_ERROR
    assert commit(client, 2) == ErrorCode.NOT_COORDINATOR
    # Longer than between two attempts to open a log again: one that fails is not the last.
    for _ in range(5):
        broker.advance(1.0)
        assert client.values("t") == [b"before"]
    disk.come_back()
    broker.advance(1.0)
    eventually(lambda: produce_code(client) == 0, "a batch is taken")
    eventually(lambda: commit(client, 3) == 0, "a commit is taken")
    assert client.values("t")[:2] == [b"before", b"more"]
    assert committed(client) == [3]


def test_the_log_has_a_line_per_partition_and_not_per_request(broker, client, disk, caplog):
    disk.turn_read_only()
    for _ in range(20):
        produce_code(client)
        commit(client, 2)
        broker.advance(1.0)
    repeated = {message: count for message, count in Counter(caplog.messages).items() if count > 1}
    assert repeated == {}
    assert len(caplog.messages) <= 8
    disk.come_back()
    broker.advance(1.0)
    eventually(lambda: produce_code(client) == 0, "a batch is taken")
    assert "t-0 accepts writes again" in caplog.text


def alter(client, kind, name, **configs):
    changes = [IncrementalAlterConfigsRequestConfig(name=key, value=value) for key, value in configs.items()]
    resource = IncrementalAlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=changes)
    return client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code


def config(client, kind, name, key):
    resource = DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    return client.ask(DescribeConfigsRequest(resources=[resource]), 4).results[0].configs[0].value


def test_a_change_that_could_not_be_stored_is_not_in_effect(broker, client, disk):
    before = config(client, TOPIC, "t", "retention.ms"), config(client, BROKER, "0", "log.retention.ms")
    disk.turn_read_only()
    assert alter(client, TOPIC, "t", **{"retention.ms": "1234"}) == STORAGE_ERROR
    assert alter(client, BROKER, "0", **{"log.retention.ms": "1234"}) == STORAGE_ERROR
    assert (config(client, TOPIC, "t", "retention.ms"), config(client, BROKER, "0", "log.retention.ms")) == before
    assert client.create_topic("new").error_code == STORAGE_ERROR
    more = CreatePartitionsRequest(topics=[CreatePartitionsRequestTopic(name="t", count=3, assignments=None)])
    assert client.ask(more, 3).results[0].error_code == STORAGE_ERROR
    gone = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")])
    assert client.ask(gone, 6).responses[0].error_code == STORAGE_ERROR
    assert len(client.metadata("t").topics[0].partitions) == 1
    disk.come_back()
    assert client.create_topic("new").error_code == 0


def test_a_producer_id_that_could_not_be_stored_is_never_given_out(broker, client, disk):
    disk.turn_read_only()
    ask = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    assert [client.ask(ask, 4).error_code for _ in range(3)] == [STORAGE_ERROR] * 3
    disk.come_back()
    assert client.ask(ask, 4).error_code == 0


def test_sealed_segments_are_read_on_a_disk_that_takes_no_writes(broker, client, disk):
    client.create_topic("sealed", **{"segment.bytes": "1048576"})
    large = [bytes([number]) * 600_000 for number in range(4)]
    for value in large:
        client.produce("sealed", batch_of(value))
    disk.turn_read_only()
    assert client.values("sealed") == large


def test_who_asks_for_a_coordinator_or_a_topic_that_cannot_be_made_may_ask_again(tmp_path, disk, caplog):
    with Broker(data=tmp_path / "data") as broker, Client(broker.bootstrap) as client:
        disk.turn_read_only()
        for _ in range(3):
            found = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0]
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            topic = client.metadata("made", auto_create=True).topics[0]
            assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert len(caplog.messages) == 1
        disk.come_back()
        client.metadata("made", auto_create=True)
        assert client.metadata("made").topics[0].error_code == 0


def create_rule(client):
    rule = CreateAclsRequestCreation(
        resource_type=2, resource_name="t", resource_pattern_type=3, principal="User:a", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip
    return client.ask(CreateAclsRequest(creations=[rule]), 3).results[0].error_code


def rules(client):
    every = DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1, resource_name_filter=None,
        principal_filter=None, host_filter=None,
    )  # fmt: skip
    return client.ask(every, 3).resources


def test_an_access_rule_that_could_not_be_stored_is_not_in_effect(tmp_path, disk):
    security = Security(super_users=["User:ANONYMOUS"])
    with Broker(data=tmp_path / "data", security=security) as broker, Client(broker.bootstrap) as client:
        before = rules(client)
        disk.turn_read_only()
        assert create_rule(client) == STORAGE_ERROR
        assert rules(client) == before
        disk.come_back()
        assert create_rule(client) == 0
        assert len(rules(client)) == len(before) + 1
