"""Produce, Fetch, ListOffsets and their like on a cluster in memory: also what changes while a request is under way."""

from __future__ import annotations

from typing import Any

import pytest

from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from seamark.wire.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from seamark.wire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from seamark.wire.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from seamark.wire.records import read_records
from seamark.wire.records.compression import LARGE_BYTES, Codec
from tests.support.broker_driver import batch_of, fetch_request, produce_request
from tests.unit.broker.api.handler_harness import Client, Served

WRITE_T = {("WRITE", "TOPIC", "t")}
READ_T = {("READ", "TOPIC", "t")}
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
START_MS = 1_700_000_000_000


@pytest.fixture
def world() -> Served:
    made = Served()
    made.create_topic("t")
    return made


@pytest.fixture
def two_nodes() -> Served:
    made = Served(nodes=2)
    made.cluster.create_topic("t", [[0, 1]], {})
    return made


def produce(client: Client, *values: bytes, version: int = 12, acks: int = -1, **facts: Any) -> Any:
    answer = client.ask(produce_request("t", batch_of(*values, **facts), acks=acks), version)
    return answer.responses[0].partition_responses[0]


def fetch(client: Client, offset: int = 0, version: int = 12, **fields: Any) -> Any:
    return client.ask(fetch_request({("t", 0): offset}, **fields), version)


def values_in(answer: Any) -> list[bytes | None]:
    return [record.value for record in read_records(answer.responses[0].partitions[0].records)]


def list_offsets(client: Client, *timestamps: int, topic: str = "t", version: int = 9) -> Any:
    partitions = [ListOffsetsRequestPartition(partition_index=0, timestamp=each) for each in timestamps]
    return client.ask(
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequestTopic(name=topic, partitions=partitions)]), version
    )


def listed(client: Client, timestamp: int, **more: Any) -> tuple[int, int, int]:
    [found] = list_offsets(client, timestamp, **more).topics[0].partitions
    return found.error_code, found.offset, found.timestamp


# -- Produce


@pytest.mark.parametrize("version", range(3, 13))
def test_records_are_appended_and_read_back_in_every_version(world: Served, version: int) -> None:
    client = world.client()
    assert [produce(client, b"a", b"b", version=version).base_offset for _ in range(2)] == [0, 2]
    assert values_in(fetch(client)) == [b"a", b"b", b"a", b"b"]


def test_a_topic_needs_the_right_to_write_whether_it_exists_or_not(world: Served) -> None:  # L4
    assert produce(world.client(rights=READ_T), b"a").error_code == DENIED
    assert produce(world.client(rights=WRITE_T), b"a").error_code == 0
    answer = world.client(rights=WRITE_T).ask(produce_request("absent", batch_of(b"a")), 12)
    assert answer.responses[0].partition_responses[0].error_code == DENIED


def test_a_node_that_does_not_lead_says_who_does(two_nodes: Served) -> None:
    answer = two_nodes.client(node=1).ask(produce_request("t", batch_of(b"a")), 12)
    [found] = answer.responses[0].partition_responses
    assert (found.error_code, found.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(0, 9092)]


def test_without_acks_a_failure_ends_the_connection_and_a_success_is_not_answered(world: Served) -> None:
    client = world.client()
    assert client.ask(produce_request("t", batch_of(b"a"), acks=0), 12) is None
    assert client.is_open
    assert client.ask(produce_request("absent", batch_of(b"a"), acks=0), 12) is None
    assert client.closed == "sent Produce with acks=0, which failed: UNKNOWN_TOPIC_OR_PARTITION"


def test_a_full_disk_is_a_storage_error_that_is_told_until_there_is_room(world: Served) -> None:
    world.cluster.storage.is_full = True
    assert produce(world.client(), b"a").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [place for place, _ in world.failures] == ["t-0"]
    world.cluster.storage.is_full = False
    assert produce(world.client(), b"a").base_offset == 0


def large_batch() -> bytes:
    """One that is unfolded beside the loop."""
    return batch_of(b"x" * (LARGE_BYTES * 2), codec=Codec.ZSTD)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("delete", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("move", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_changed_while_a_batch_was_unfolded_counts(two_nodes: Served, change: str, code: ErrorCode) -> None:
    client = two_nodes.client()
    client.send(produce_request("t", large_batch()), 12)
    assert client.answer is None
    topic = two_nodes.cluster.topics["t"]
    if change == "delete":
        two_nodes.cluster.delete_topic(topic)
    else:
        two_nodes.cluster.move_leader(topic.partitions[0], 1)
    two_nodes.settle()
    assert client.answer.responses[0].partition_responses[0].error_code == code
    assert topic.partitions[0].log_end == 0


def test_a_client_that_left_has_the_rest_of_its_partitions_not_written(world: Served) -> None:
    world.create_topic("u")
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            ProduceRequestTopic(
                name=name, partition_data=[ProduceRequestPartition(index=0, records=large_batch())]
            )
            for name in ("t", "u")
        ],
    )  # fmt: skip
    client = world.client()
    client.send(request, 12)
    client.leave()
    world.settle()
    assert world.cluster.topics["u"].partitions[0].log_end == 0
    assert client.answer is None


# -- Fetch


@pytest.mark.parametrize("version", range(4, 18))
def test_every_version_reads_what_was_produced(world: Served, version: int) -> None:
    produce(world.client(), b"a", b"b")
    topic = world.cluster.topics["t"].id if version >= 13 else "t"
    answer = world.client().ask(fetch_request({(topic, 0): 0}), version)
    assert values_in(answer) == [b"a", b"b"]
    assert answer.responses[0].partitions[0].high_watermark == 2


def test_a_topic_needs_the_right_to_read(world: Served) -> None:  # L4
    produce(world.client(), b"a")
    assert fetch(world.client(rights=WRITE_T)).responses[0].partitions[0].error_code == DENIED
    assert values_in(fetch(world.client(rights=READ_T))) == [b"a"]


def test_a_fetch_waits_for_min_bytes_and_no_longer_than_it_said(world: Served) -> None:
    client, partition = world.client(), world.cluster.topics["t"].partitions[0]
    assert fetch(client, max_wait_ms=500, min_bytes=1) is None
    assert len(partition.waiters) == 1
    produce(world.client(), b"a")
    assert values_in(client.answer) == [b"a"]
    assert not partition.waiters
    assert fetch(client, 1, max_wait_ms=500, min_bytes=1) is None
    world.advance(0.4)
    assert client.answer is None
    world.advance(0.2)
    assert values_in(client.answer) == []
    assert not partition.waiters


def test_what_arrives_in_one_turn_of_the_loop_is_answered_together(world: Served) -> None:
    client = world.client()
    assert fetch(client, max_wait_ms=500, min_bytes=1) is None
    for value in (b"a", b"b"):
        world.client().send(produce_request("t", batch_of(value)), 12)
    world.settle()
    assert values_in(client.answer) == [b"a", b"b"]


def test_a_fetch_that_waits_learns_that_its_partition_moved(two_nodes: Served) -> None:
    client = two_nodes.client()
    assert fetch(client, version=12, max_wait_ms=500) is None
    two_nodes.cluster.move_leader(two_nodes.cluster.topics["t"].partitions[0], 1)
    two_nodes.settle()
    [found] = client.answer.responses[0].partitions
    assert (found.error_code, found.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)


def test_nobody_waits_for_a_client_that_left(world: Served) -> None:
    client, partition = world.client(), world.cluster.topics["t"].partitions[0]
    assert fetch(client, max_wait_ms=500) is None
    client.leave()
    assert not partition.waiters
    world.advance(1)
    assert client.answer is None


def test_a_session_is_told_only_what_is_news(world: Served) -> None:
    client = world.client()
    produce(client, b"a")
    opened = fetch(client, session_epoch=0)
    assert values_in(opened) == [b"a"]
    again = fetch_request({("t", 0): 1}, session_id=opened.session_id, session_epoch=1)
    assert client.ask(again, 12).responses == []
    produce(client, b"b")
    unchanged = fetch_request({}, session_id=opened.session_id, session_epoch=2)
    assert values_in(client.ask(unchanged, 12)) == [b"b"]
    repeated = client.ask(unchanged, 12)
    assert repeated.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


# -- ListOffsets, OffsetForLeaderEpoch, DeleteRecords


@pytest.mark.parametrize("version", range(1, 10))
def test_start_and_end_are_told_in_every_version(world: Served, version: int) -> None:
    client = world.client()
    produce(client, b"a", b"b")
    assert listed(client, EARLIEST, version=version)[:2] == (0, 0)
    assert listed(client, LATEST, version=version)[:2] == (0, 2)


def test_offsets_are_found_by_time(world: Served) -> None:
    client = world.client()
    produce(client, b"a", b"b", b"c", timestamp_ms=START_MS - 1000)
    assert listed(client, START_MS - 999) == (0, 1, START_MS - 999)
    assert listed(client, START_MS) == (0, -1, -1)
    assert listed(client, MAX_TIMESTAMP) == (0, 2, START_MS - 998)


def test_a_topic_needs_the_right_to_describe_and_a_partition_is_asked_for_once(world: Served) -> None:  # L4
    assert listed(world.client(rights=READ_T), LATEST)[0] == DENIED
    client = world.client(rights={("DESCRIBE", "TOPIC", "t")})
    assert listed(client, LATEST)[0] == 0
    [refused] = list_offsets(client, LATEST, EARLIEST).topics[0].partitions
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert listed(world.client(), LATEST, topic="absent")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_epoch_ends_where_the_next_one_begins(two_nodes: Served) -> None:
    produce(two_nodes.client(), b"a", b"b")
    partition = two_nodes.cluster.topics["t"].partitions[0]
    two_nodes.cluster.move_leader(partition, 1)
    produce(two_nodes.client(node=1), b"c")
    asked = OffsetForLeaderEpochRequestPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderEpochRequestTopic(topic="t", partitions=[asked])]
    )
    [found] = two_nodes.client(node=1).ask(request, 4).topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 0, 2)
    [elsewhere] = two_nodes.client(node=0).ask(request, 4).topics[0].partitions
    assert elsewhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_records_are_deleted_by_who_may_delete_them(world: Served) -> None:
    produce(world.client(), b"a")
    produce(world.client(), b"b")
    request = DeleteRecordsRequest(
        timeout_ms=1000,
        topics=[
            DeleteRecordsRequestTopic(
                name="t", partitions=[DeleteRecordsRequestPartition(partition_index=0, offset=1)]
            )
        ],
    )  # fmt: skip
    [denied] = world.client(rights=READ_T).ask(request, 2).topics[0].partitions
    assert denied.error_code == DENIED
    [allowed] = world.client(rights={("DELETE", "TOPIC", "t")}).ask(request, 2).topics[0].partitions
    assert (allowed.error_code, allowed.low_watermark) == (0, 1)
    assert listed(world.client(), EARLIEST)[:2] == (0, 1)
