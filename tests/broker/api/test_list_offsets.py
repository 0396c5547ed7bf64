"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch: the ends of a log, by time and by epoch."""

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
from tests.support.broker_driver import batch_of, fresh_name


@pytest.fixture
def topic(broker, client):
    name = fresh_name()
    broker.create_topic(name)
    for stamp in (1000, 3000, 2000):
        client.produce(name, batch_of(b"a", b"b", timestamp_ms=stamp))
    return name


def delete_records(client, topic, offset, version=2):
    wanted = DeleteRecordsRequestPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsRequestTopic(name=topic, partitions=[wanted])], timeout_ms=1000)
    return client.ask(request, version).topics[0].partitions[0]


def end_of_epoch(client, topic, epoch, *, current=-1, version=4):
    wanted = OffsetForLeaderEpochRequestPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderEpochRequestTopic(topic=topic, partitions=[wanted])]
    )
    return client.ask(request, version).topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (6, -1)),
        (-2, (0, -1)),
        (-3, (3, 3001)),
        (-4, (0, -1)),
        (-5, (-1, -1)),
        (0, (0, 1000)),
        (1001, (1, 1001)),
        (2500, (2, 3000)),
        (3001, (3, 3001)),
        (3002, (-1, -1)),
    ],
)
def test_offsets_are_found_by_time(client, topic, timestamp, expected):
    found = client.list_offset(topic, timestamp)
    assert (found.error_code, found.offset, found.timestamp) == (0, *expected)


@pytest.mark.parametrize("version", range(1, 11))
def test_every_version_knows_start_and_end(client, topic, version):
    assert client.list_offset(topic, -2, version=version).offset == 0
    assert client.list_offset(topic, -1, version=version).offset == 6


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10)])
def test_a_question_that_the_version_does_not_have_is_refused(client, topic, timestamp, version):
    assert client.list_offset(topic, timestamp, version=version).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_partition_that_is_asked_for_twice_is_refused_once(client, topic):
    wanted = [ListOffsetsRequestPartition(partition_index=0, timestamp=-1) for _ in range(2)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequestTopic(name=topic, partitions=wanted)])
    codes = [each.error_code for each in client.ask(request).topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST]


def test_unknown_partitions_are_told(client, topic):
    assert client.list_offset(topic, -1, partition=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_below_an_offset_are_deleted(client, topic, version):
    answer = delete_records(client, topic, 3, version)
    assert (answer.error_code, answer.low_watermark) == (0, 3)
    assert client.list_offset(topic, -2).offset == 3
    assert client.fetch(topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.fetch(topic, 3).log_start_offset == 3
    assert client.list_offset(topic, 0).offset == 3


def test_records_are_deleted_up_to_the_end_with_minus_one_and_not_behind_it(client, topic):
    assert delete_records(client, topic, 7).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records(client, topic, -1).low_watermark == 6
    assert delete_records(client, topic, 2).low_watermark == 6
    assert client.produce(topic, batch_of(b"a")).base_offset == 6


def test_records_of_a_compacted_topic_are_not_deleted_by_offset(client):
    client.create_topic("only-compacted", cleanup_policy="compact")
    assert delete_records(client, "only-compacted", 0).error_code == ErrorCode.POLICY_VIOLATION


def test_an_epoch_ends_where_the_next_one_begins(broker, client, topic):
    partition = broker._server.cluster.partition(topic, 0)
    broker._call(lambda: broker._server.cluster.move_leader(partition, 0))
    client.produce(topic, batch_of(b"c"))
    found = end_of_epoch(client, topic, 0)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 0, 6)
    assert end_of_epoch(client, topic, 1, version=2).end_offset == 7
    assert end_of_epoch(client, topic, 2, version=3).end_offset == -1
    assert end_of_epoch(client, topic, 0, current=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert end_of_epoch(client, topic, 0, current=9).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert client.list_offset(topic, -1).leader_epoch == 1
    assert client.list_offset(topic, -2).leader_epoch == 0
