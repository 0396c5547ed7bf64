"""Requests that ask for much in few bytes: answered in proportion, with one write, in slices, or refused (issue 16)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from seamark import Broker
from seamark.acls import Acl
from seamark.broker.api import topic_rules
from seamark.broker.api.endpoints import load_endpoints
from seamark.broker.cluster.state import BrokerState
from seamark.broker.net import context as context_module
from seamark.broker.security.security import Security
from seamark.broker.sharing.turns import Turns
from seamark.log_limits import LINES_OF_A_CAUSE
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from seamark.wire.protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from seamark.wire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from seamark.wire.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from seamark.wire.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from seamark.wire.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from seamark.wire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from seamark.wire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from seamark.wire.protocol.messages.describe_groups import DescribeGroupsRequest
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from seamark.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from seamark.wire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.support.broker_driver import Client, batch_of, fetch_request, fresh_name
from tests.support.request_shapes import Naming, array_paths, shaped
from tests.support.waiting import eventually

TOPIC, BROKER = 2, 4


@pytest.fixture(scope="module")
def broker():
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


def commit(client: Client, group: str, topic: str, partitions: int = 1, metadata: str = "") -> None:
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata=metadata)
                    for index in range(partitions)
                ],
            )
        ],
    )
    eventually(
        lambda: not client.ask(FindCoordinatorRequest(coordinator_keys=[group])).coordinators[0].error_code,
        "the coordinator is there",
    )
    assert not client.ask(request, 9).topics[0].partitions[0].error_code


def fetch_of(group: str, topic: str | None = None, partitions: tuple[int, ...] = (0,)) -> OffsetFetchRequestGroup:
    topics = None if topic is None else [OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))]
    return OffsetFetchRequestGroup(group_id=group, topics=topics)


# -- what is named again is not answered again


def test_a_group_that_is_named_a_thousand_times_has_its_offsets_told_once(broker, client):
    topic = fresh_name()
    broker.create_topic(topic, 50)
    commit(client, "told-once", topic, 50, metadata="m" * 200)
    once = client.wire.exchange(client.frame(OffsetFetchRequest(groups=[fetch_of("told-once")]), 9))
    again = client.wire.exchange(client.frame(OffsetFetchRequest(groups=[fetch_of("told-once")] * 1000), 9))
    assert len(again) == len(once)


def test_all_that_is_asked_of_a_group_in_several_places_is_told(broker, client):
    first, second = fresh_name(), fresh_name()
    for topic in (first, second):
        broker.create_topic(topic, 2)
        commit(client, "asked-in-places", topic, 2)
    groups = [
        fetch_of("asked-in-places", first, (1, 0, 1)),
        fetch_of("other"),
        fetch_of("asked-in-places", second),
        fetch_of("asked-in-places", first, (0,)),
    ]
    answer = client.ask(OffsetFetchRequest(groups=groups), 9).groups
    assert [group.group_id for group in answer] == ["asked-in-places", "other"]
    found = {
        (topic.name, p.partition_index): p.committed_offset for topic in answer[0].topics for p in topic.partitions
    }
    assert found == {(first, 1): 7, (first, 0): 7, (second, 0): 7}
    both = client.ask(OffsetFetchRequest(groups=[*groups, *[fetch_of("asked-in-places")] * 9]), 9).groups
    assert [group.group_id for group in both] == ["asked-in-places", "other", "asked-in-places"]
    assert sum(len(topic.partitions) for topic in both[2].topics) == 4


def test_groups_that_are_named_twice_are_described_once(client):
    answer = client.ask(DescribeGroupsRequest(groups=["a", "b", "a"] * 100))
    assert [group.group_id for group in answer.groups] == ["a", "b"]
    answer = client.ask(ConsumerGroupDescribeRequest(group_ids=["a", "b", "a"] * 100))
    assert [group.group_id for group in answer.groups] == ["a", "b"]


def test_a_resource_that_is_named_twice_is_described_once_and_a_node_has_one_name(broker, client):
    topic = fresh_name()
    broker.create_topic(topic)
    resources = [
        DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in ((TOPIC, topic), (BROKER, "0"), (TOPIC, topic), (BROKER, "00"))
    ]
    results = client.ask(DescribeConfigsRequest(resources=resources)).results
    assert [(result.resource_name, result.error_code) for result in results] == [
        (topic, ErrorCode.NONE),
        ("0", ErrorCode.NONE),
        ("00", ErrorCode.INVALID_REQUEST),
    ]


def test_a_partition_that_is_named_twice_is_read_once_as_it_was_named_last(broker, client):
    topic = fresh_name()
    broker.create_topic(topic)
    client.produce(topic, batch_of(b"a"))
    client.produce(topic, batch_of(b"b"))
    request = fetch_request({(topic, 0): 0})
    request.topics[0].partitions *= 500
    request.topics += fetch_request({(topic, 0): 1}).topics
    answer = client.ask(request, 12).responses
    assert [len(each.partitions) for each in answer] == [1]
    assert len(answer[0].partitions[0].records) == len(batch_of(b"b"))


def test_of_a_partition_whose_records_are_deleted_twice_the_last_offset_counts(broker, client):
    topic = fresh_name()
    broker.create_topic(topic)
    for _ in range(3):
        client.produce(topic, batch_of(b"a"))
    partitions = [DeleteRecordsRequestPartition(partition_index=0, offset=offset) for offset in (3, 2, 1)]
    answer = client.ask(
        DeleteRecordsRequest(topics=[DeleteRecordsRequestTopic(name=topic, partitions=partitions)], timeout_ms=1000)
    )
    assert [(p.low_watermark, p.error_code) for p in answer.topics[0].partitions] == [(1, 0)]


# -- one write of the state for all changes of a request


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of topics in each state that was written."""
    written: list[int] = []
    save = BrokerState.save

    def count(state: BrokerState, topics: Iterable[str]) -> None:
        kept = list(topics)
        save(state, kept)
        written.append(len(kept))

    monkeypatch.setattr(BrokerState, "save", count)
    return written


def test_all_changes_of_a_request_are_one_write(tmp_path: Path, writes: list[int]) -> None:
    names = [fresh_name() for _ in range(30)]
    with Broker(data=tmp_path) as broker, Client(broker.bootstrap) as client:
        writes.clear()
        client.metadata(*names[:10], auto_create=True)
        assert writes == [10]
        topics = [CreateTopicsRequestTopic(name=name, num_partitions=2, replication_factor=1) for name in names[10:]]
        client.ask(CreateTopicsRequest(topics=topics))
        assert writes == [10, 30]
        more = [CreatePartitionsRequestTopic(name=name, count=3, assignments=None) for name in names]
        assert not any(each.error_code for each in client.ask(CreatePartitionsRequest(topics=more)).results)
        assert len(writes) == 3
        config = IncrementalAlterConfigsRequestConfig(name="retention.ms", value="5")
        resources = [
            IncrementalAlterConfigsRequestResource(resource_type=TOPIC, resource_name=name, configs=[config])
            for name in names
        ]
        assert not any(
            each.error_code for each in client.ask(IncrementalAlterConfigsRequest(resources=resources)).responses
        )
        assert len(writes) == 4
        client.produce(names[0], batch_of(b"a"))
        gone = [DeleteTopicsRequestTopic(name=name) for name in names]
        assert not any(each.error_code for each in client.ask(DeleteTopicsRequest(topics=gone)).responses)
        assert writes[4:] == [0]
        eventually(lambda: not (tmp_path / f"{names[0]}-0").exists(), "the log is removed")


def test_a_request_that_only_looks_makes_nothing(tmp_path: Path, writes: list[int]) -> None:
    with Broker(data=tmp_path) as broker, Client(broker.bootstrap) as client:
        writes.clear()
        client.metadata("not-there", auto_create=False)
        client.fetch("not-there")
        client.ask(OffsetFetchRequest(groups=[fetch_of("nobody", "not-there")]), 9)
        assert writes == []


def test_a_topic_that_is_made_again_at_once_does_not_meet_the_files_of_the_old_one(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, Client(broker.bootstrap) as client:
        topics = [CreateTopicsRequestTopic(name="again", num_partitions=50, replication_factor=1)]
        client.ask(CreateTopicsRequest(topics=topics))
        for index in range(50):
            client.produce("again", batch_of(b"old"), partition=index)
        gone = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="again")])
        # Both before the first answer: nothing else happens between them.
        client.send(gone, 6)
        client.send(CreateTopicsRequest(topics=topics), 7)
        assert not client.receive(gone, 6).responses[0].error_code
        assert not client.receive(CreateTopicsRequest(), 7).topics[0].error_code
        assert [client.values("again", partition=index) for index in (0, 49)] == [[], []]


# -- limits


def test_metadata_makes_a_limited_number_of_topics_and_the_rest_when_asked_again(monkeypatch):
    monkeypatch.setattr(topic_rules, "MOST_MADE_BY_METADATA", 10)
    names = [f"wanted-{number:02}" for number in range(25)]
    with Broker(settings={"num.partitions": 2}) as broker, Client(broker.bootstrap) as client:
        rounds = [
            [ErrorCode(topic.error_code).name for topic in client.metadata(*names, auto_create=True).topics]
            for _ in range(6)
        ]
    assert rounds[0] == ["UNKNOWN_TOPIC_OR_PARTITION"] * 5 + ["LEADER_NOT_AVAILABLE"] * 20
    assert rounds[1] == ["NONE"] * 5 + ["UNKNOWN_TOPIC_OR_PARTITION"] * 5 + ["LEADER_NOT_AVAILABLE"] * 15
    assert rounds[5] == ["NONE"] * 25


@pytest.mark.parametrize("partitions", [10_000, 1_000_000, 2**31 - 1])
def test_too_many_partitions_at_once_are_refused_as_kafka_does(client, partitions):
    topics = [
        CreateTopicsRequestTopic(name=fresh_name(), num_partitions=count, replication_factor=1)
        for count in (1, partitions)
    ]
    answer = client.ask(CreateTopicsRequest(topics=topics))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.POLICY_VIOLATION] * 2


def test_too_many_changes_at_once_are_refused_and_none_is_made(monkeypatch):
    for module in ("create_topics", "create_partitions", "delete_topics", "incremental_alter_configs", "create_acls"):
        monkeypatch.setattr(f"seamark.broker.api.handlers.{module}.MOST_CHANGES", 4)
    names = [f"topic-{number}" for number in range(5)]
    config = IncrementalAlterConfigsRequestConfig(name="retention.ms", value="5")
    with Broker(security=Security(acls=[Acl("User:*", "ALL", kind) for kind in ("TOPIC", "CLUSTER")])) as broker:
        for name in names:
            broker.create_topic(name)
        with Client(broker.bootstrap) as client:
            made = client.ask(CreateTopicsRequest(topics=[CreateTopicsRequestTopic(name=f"new-{n}") for n in names]))
            grown = client.ask(
                CreatePartitionsRequest(
                    topics=[CreatePartitionsRequestTopic(name=name, count=2, assignments=None) for name in names]
                )
            )
            gone = client.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=name) for name in names]))
            changed = client.ask(
                IncrementalAlterConfigsRequest(
                    resources=[
                        IncrementalAlterConfigsRequestResource(resource_type=TOPIC, resource_name=n, configs=[config])
                        for n in names
                    ]
                )
            )
            allowed = client.ask(
                CreateAclsRequest(
                    creations=[
                        CreateAclsRequestCreation(
                            resource_type=TOPIC, resource_name=n, principal="User:a", host="*", operation=3,
                            permission_type=3,
                        )
                        for n in names
                    ]
                )
            )  # fmt: skip
            found = client.metadata(*names)
    for answers in (made.topics, grown.results, gone.responses, changed.responses, allowed.results):
        assert [each.error_code for each in answers] == [ErrorCode.POLICY_VIOLATION] * 5
        assert "send several" in answers[0].error_message
    assert [len(topic.partitions) for topic in found.topics] == [1] * 5


def test_an_answer_that_would_be_too_long_is_refused_and_told_a_few_times(broker, client, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "seamark")
    topic = fresh_name()
    broker.create_topic(topic, 500)
    monkeypatch.setattr(context_module, "MAX_ANSWER_BYTES", 5000)
    monkeypatch.setattr(context_module, "_PIECES_PER_CHUNK", 10)
    for _ in range(30):
        # On connections of their own, so that coming again does not help.
        with Client(broker.bootstrap) as another:
            answer = another.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
        assert [(each.error_code, each.partitions) for each in answer.topics] == [(ErrorCode.INVALID_REQUEST, [])]
    monkeypatch.undo()
    assert len(client.metadata(topic).topics[0].partitions) == 500
    assert caplog.text.count("asked by Metadata for more than 5,000 bytes") == LINES_OF_A_CAUSE


def test_more_elements_than_a_request_may_have_close_the_connection_with_a_line(broker, caplog):
    caplog.set_level(logging.INFO, "seamark")
    with Client(broker.bootstrap) as client:
        client.send(DescribeGroupsRequest(groups=[""] * 40_000), 6)
        assert client.wire.is_closed_by_peer(5)
    assert "DescribeGroups version 6 that cannot be read" in caplog.text


def test_filters_that_would_look_at_all_rules_too_often_are_refused(monkeypatch):
    monkeypatch.setattr("seamark.broker.api.handlers.delete_acls._MOST_RULES_LOOKED_AT", 100)
    rules = [Acl("User:*", "ALL", "CLUSTER"), *(Acl("User:a", "READ", "TOPIC", f"t{n}") for n in range(29))]
    with Broker(security=Security(acls=rules)) as broker, Client(broker.bootstrap) as client:

        def ask(*names, pattern=3):
            filters = [
                DeleteAclsRequestFilter(
                    resource_type_filter=TOPIC, resource_name_filter=name, pattern_type_filter=pattern, operation=1,
                    permission_type=1, principal_filter=None, host_filter=None,
                )
                for name in names
            ]  # fmt: skip
            results = client.ask(DeleteAclsRequest(filters=filters)).filter_results
            return [(each.error_code, len(each.matching_acls)) for each in results]

        assert ask("x", "y", "z", "w", pattern=2) == [(ErrorCode.INVALID_REQUEST, 0)] * 4
        # Each rule would be told so often.
        assert ask(*["t0"] * 200, "t1") == [(ErrorCode.INVALID_REQUEST, 0)] * 201
        # A filter that names a resource looks at the rules of that alone.
        assert ask("t0", "t0", "t1") == [(0, 1)] * 3
        assert ask(*(f"t{number}" for number in range(2, 29))) == [(0, 1)] * 27


# -- the longest texts


def longest_requests():
    """Every request that names something, with names as long as they can be."""
    for endpoint in load_endpoints().values():
        api, version = endpoint.api, endpoint.versions.last
        for path in array_paths(api.request, version, is_flexible=False):
            yield pytest.param(api.request, version, path, id=f"{api.name}-{'/'.join(path)}")


@pytest.mark.parametrize(("cls", "version", "path"), list(longest_requests()))
def test_names_as_long_as_they_can_be_are_answered(client, cls, version, path, monkeypatch, caplog):
    monkeypatch.setattr(
        "tests.support.request_shapes._Maker._name", lambda _self, number: f"\1{number}".ljust(32767, "\1")
    )
    request = shaped(cls, version, path, 2, Naming.MISSING)
    assert client.wire.exchange(client.frame(request, version))
    assert "cannot be written" not in caplog.text


def test_a_list_grows_no_longer_than_it_can_be_told(broker, client):
    topic = fresh_name()
    broker.create_topic(topic)

    def change(value: str, operation: int) -> int:
        config = IncrementalAlterConfigsRequestConfig(
            name="leader.replication.throttled.replicas", value=value, config_operation=operation
        )
        resource = IncrementalAlterConfigsRequestResource(resource_type=TOPIC, resource_name=topic, configs=[config])
        return client.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code

    set_, append, subtract = 0, 2, 3
    items = ",".join(f"{number}:0" for number in range(4000))
    assert change(items, set_) == ErrorCode.NONE
    assert change(items, append) == ErrorCode.NONE
    assert change(",".join(f"{number}:1" for number in range(4000)), append) == ErrorCode.INVALID_CONFIG
    resource = DescribeConfigsRequestResource(resource_type=TOPIC, resource_name=topic, configuration_keys=None)
    configs = client.ask(DescribeConfigsRequest(resources=[resource])).results[0].configs
    assert [each.value for each in configs if each.name.startswith("leader")] == [items]
    assert change(items, subtract) == ErrorCode.NONE


# -- what is long by nature


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Long work does not go on until this is set."""
    released = threading.Event()
    go_on = Turns._go_on

    def hold(self: Turns, work: Any) -> None:
        is_held = work.steps.__name__ == "_write_in_slices" and not released.is_set()
        (Turns.stand_in_line if is_held else go_on)(self, work)

    monkeypatch.setattr(Turns, "_go_on", hold)
    return released


def test_others_are_served_between_the_slices_of_a_long_answer(broker, held):
    topic = fresh_name()
    broker.create_topic(topic, 2000)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    with Client(broker.bootstrap) as patient, Client(broker.bootstrap) as quick:
        patient.send(request, 13)
        eventually(lambda: len(broker._server.turns) == 1, "the answer is under way")
        for _ in range(3):
            assert quick.ask(FindCoordinatorRequest(key_type=9), 3).error_code == ErrorCode.INVALID_REQUEST
        held.set()
        assert len(patient.receive(request, 13).topics[0].partitions) == 2000


def test_a_client_that_leaves_before_its_long_answer_costs_no_more(broker, held, monkeypatch):
    answered: list[str] = []
    monkeypatch.setattr(
        broker._server.nodes[0], "on_answer", lambda context, _: answered.append(context.endpoint.api.name)
    )
    topic = fresh_name()
    broker.create_topic(topic, 2000)
    with Client(broker.bootstrap) as leaving:
        leaving.send(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 13)
        eventually(lambda: len(broker._server.turns) == 1, "the answer is under way")
        connections = len(broker._server.nodes[0].connections)
    eventually(lambda: len(broker._server.nodes[0].connections) < connections, "the client is gone")
    held.set()
    eventually(lambda: len(broker._server.turns) == 0, "the work is given up")
    assert answered == []
