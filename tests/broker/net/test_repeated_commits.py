"""Clients that commit again and again over real sockets: what they are told, what is stored, what interrupts them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from seamark import Acl, Broker, Security
from seamark.broker.groups.runtime import GroupRuntime
from seamark.coordinator.commands import CommitOffsets
from seamark.coordinator.offsets.commit_patterns import CommitAgain
from seamark.wire.offsets.offsets_topic import OffsetCommitEntry, decode_entry
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.delete_groups import DeleteGroupsRequest
from seamark.wire.protocol.messages.delete_topics import DeleteTopicsRequest
from seamark.wire.protocol.messages.find_coordinator import FindCoordinatorRequest
from seamark.wire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from seamark.wire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from seamark.wire.records import read_records
from tests.support.broker_driver import Client

TOPICS = {"orders": [0, 1, 2], "payments": [0]}


def commit(
    offset: int, group: str = "g", topics: dict[str, list[int]] = TOPICS, metadata: str = ""
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset + index, committed_metadata=metadata
                    )
                    for index in partitions
                ],
            )
            for topic, partitions in topics.items()
        ],
    )


def codes(response: object) -> set[int]:
    return {each.error_code for topic in response.topics for each in topic.partitions}  # type: ignore[attr-defined]


def committed(client: Client, group: str = "g") -> dict[tuple[str, int], int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    for _ in range(500):
        [found] = client.ask(request, 8).groups
        if found.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
        time.sleep(0.01)
    assert found.error_code == 0
    return {
        (topic.name, each.partition_index): each.committed_offset for topic in found.topics for each in topic.partitions
    }


def all_at(offset: int) -> dict[tuple[str, int], int]:
    return {(topic, index): offset + index for topic, indexes in TOPICS.items() for index in indexes}


def find_coordinator(client: Client) -> None:
    """Make the broker set its offsets topic up, and wait until the group can be asked."""
    for _ in range(500):
        client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        if codes(client.ask(commit(0))) == {0}:
            return
        time.sleep(0.01)
    raise AssertionError("the coordinator was not ready within five seconds")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for topic, indexes in TOPICS.items():
            broker.create_topic(topic, partitions=len(indexes))
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.bootstrap) as client:
        find_coordinator(client)
        yield client


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """The kinds of commit that the coordinator was asked for."""
    asked: list[type] = []
    submit = GroupRuntime.submit

    def note(runtime: GroupRuntime, command: object, asker: object) -> None:
        if isinstance(command, CommitOffsets | CommitAgain):
            asked.append(type(command))
        submit(runtime, command, asker)  # type: ignore[arg-type]

    monkeypatch.setattr(GroupRuntime, "submit", note)
    return asked


# covers: F5, F6, A8
@pytest.mark.parametrize("version", [2, 5, 7, 8, 9])
def test_every_repeated_commit_is_answered_stored_and_counted_once(broker, client, commands, version):
    for number in range(1, 20):
        assert codes(client.ask(commit(number), version)) == {0}
        assert committed(client) == all_at(number)
    assert commands.count(CommitAgain) >= 17
    partition = broker._server.nodes[0].groups.partition_for("g")
    stored = client.fetch("__consumer_offsets", partition=partition).records
    entries = [decode_entry(record.key, record.value) for record in read_records(bytes(stored))]
    offsets = [entry.value.offset for entry in entries if isinstance(entry, OffsetCommitEntry) and entry.partition == 2]
    assert offsets[-19:] == [number + 2 for number in range(1, 20)]


# covers: F5, F15
def test_repeated_commits_are_there_after_a_restart(tmp_path):
    with Broker(data=str(tmp_path)) as broker:
        for topic, indexes in TOPICS.items():
            broker.create_topic(topic, partitions=len(indexes))
        with Client(broker.bootstrap) as client:
            find_coordinator(client)
            for number in range(30):
                client.ask(commit(number))
            assert committed(client) == all_at(29)
    with Broker(data=str(tmp_path)) as broker, Client(broker.bootstrap) as client:
        assert committed(client) == all_at(29)


def test_commits_sent_without_waiting_are_all_answered_in_order(client):
    for _ in range(3):
        client.ask(commit(1))
    frames = [client.frame(commit(number), 9) for number in range(50)]
    client.wire.send(b"".join(frames))
    correlation_ids = [client.wire.receive(10)[4:8] for _ in frames]
    assert correlation_ids == [frame[8:12] for frame in frames]
    assert committed(client) == all_at(49)


def test_commits_cut_anywhere_are_understood(client):
    for _ in range(3):
        client.ask(commit(1))
    frame = client.frame(commit(5), 9)
    for cut in range(1, len(frame), 7):
        client.wire.send(frame[:cut])
        time.sleep(0.002)
        client.wire.send(frame[cut:])
        assert codes(client.decode(commit(5), 9, client.wire.receive(10))) == {0}
    assert committed(client) == all_at(5)


# covers: F26
def test_a_group_that_was_deleted_in_between_begins_anew(client):
    for number in range(5):
        client.ask(commit(number))
    assert client.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == 0
    assert committed(client) == {}
    assert codes(client.ask(commit(9))) == {0}
    assert committed(client) == all_at(9)


# covers: F26
def test_a_topic_that_is_gone_is_told_as_always(client):
    for number in range(5):
        client.ask(commit(number))
    deleted = client.ask(DeleteTopicsRequest(topic_names=["payments"]), 5)
    assert deleted.responses[0].error_code == 0
    answer = client.ask(commit(6))
    told = {(topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions}
    assert told == {
        ("payments", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("orders", 0): 0,
        ("orders", 1): 0,
        ("orders", 2): 0,
    }


def test_faults_reach_repeated_commits_too(broker, client):
    for number in range(5):
        client.ask(commit(number))
    broker.faults.fail("OffsetCommit", "NOT_COORDINATOR", times=1)
    assert codes(client.ask(commit(6))) == {ErrorCode.NOT_COORDINATOR}
    assert committed(client) == all_at(4)
    assert codes(client.ask(commit(7))) == {0}


def test_a_bug_while_deciding_a_repeated_commit_is_answered(client, monkeypatch, caplog):
    for number in range(5):
        client.ask(commit(number))

    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    with monkeypatch.context() as broken:
        broken.setattr(GroupRuntime, "submit", fail)
        assert codes(client.ask(commit(6))) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert "on purpose" in caplog.text
    assert codes(client.ask(commit(7))) == {0}


# covers: L4
def test_a_client_with_limited_rights_never_skips_the_question():
    security = Security(
        acls=[Acl("User:ANONYMOUS", "ALL", "GROUP", "g"), Acl("User:ANONYMOUS", "ALL", "TOPIC", "orders")]
    )
    with Broker(security=security) as broker:
        broker.create_topic("orders", partitions=3)
        broker.create_topic("payments")
        with Client(broker.bootstrap) as client:
            client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
            for number in range(8):
                time.sleep(0.01)
                answer = client.ask(commit(number))
            told = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
            assert told == {"orders": 0, "payments": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        assert not any(
            connection.commits.template for node in broker._server.nodes for connection in node.connections._open
        )
