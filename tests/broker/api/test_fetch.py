"""Fetch over real sockets: limits, waiting, epochs, ranges (K8, K16)."""

import threading
import time

import pytest

from seamark.broker.api import fetch_reading
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.fetch import FetchRequestReplicaState
from tests.support.broker_driver import Client, batch_of, fetch_request, fresh_name


@pytest.fixture
def topic(broker):
    name = fresh_name()
    broker.create_topic(name, 3)
    return name


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_reads_by_name(client, topic, version):
    client.produce(topic, batch_of(b"a"))
    found = client.fetch(topic, version=version)
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 1, 1)
    assert len(found.records) > 61


@pytest.mark.parametrize("version", range(13, 18))
def test_newer_versions_read_by_id(client, topic, version):
    client.produce(topic, batch_of(b"a"))
    topic_id = client.topic_id(topic)
    response = client.ask(fetch_request({(topic_id, 0): 0}), version)
    assert response.responses[0].topic_id == topic_id
    assert response.responses[0].partitions[0].records
    unknown = client.ask(fetch_request({(bytes(15) + b"x", 0): 0}), version)
    assert unknown.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_offsets_outside_of_the_log_are_out_of_range(client, topic):
    client.produce(topic, batch_of(b"a"))
    assert client.fetch(topic, 1).error_code == 0
    assert client.fetch(topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    refused = client.fetch(topic, -1)
    assert (refused.error_code, refused.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_unknown_topics_and_partitions_are_told(client, topic):
    assert client.fetch("missing").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.fetch(topic, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_epoch_of_the_past_is_fenced_and_one_of_the_future_unknown(broker, client, topic):
    partition = broker._server.cluster.partition(topic, 0)
    broker._call(lambda: broker._server.cluster.move_leader(partition, 0))
    assert partition.leader_epoch == 1
    assert client.fetch(topic, leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert client.fetch(topic, leader_epoch=1).error_code == 0
    assert client.fetch(topic, leader_epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_client_that_read_further_than_its_epoch_goes_is_told_where_they_part(broker, client, topic):
    client.produce(topic, batch_of(b"a"))
    partition = broker._server.cluster.partition(topic, 0)
    broker._call(lambda: broker._server.cluster.move_leader(partition, 0))
    client.produce(topic, batch_of(b"b"))
    request = fetch_request({(topic, 0): 2})
    request.topics[0].partitions[0].last_fetched_epoch = 0
    found = client.ask(request, 12).responses[0].partitions[0]
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset, found.records) == (0, 1, b"")


def test_nobody_follows_here(client, topic):
    refused = client.ask(fetch_request({(topic, 0): 0}, replica_id=5), 12)
    assert refused.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    state = FetchRequestReplicaState(replica_id=5)
    refused = client.ask(fetch_request({(client.topic_id(topic), 0): 0}, replica_state=state), 15)
    assert refused.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_first_batch_is_given_however_large_it_is_and_no_other(client, topic):
    for partition in range(2):
        for _ in range(3):
            client.produce(topic, batch_of(b"x" * 1000), partition=partition)
    one = len(client.fetch(topic, max_bytes=1).records)
    response = client.ask(fetch_request({(topic, 0): 0, (topic, 1): 0}, max_bytes=10), 12)
    assert [len(p.records) for p in response.responses[0].partitions] == [one, 0]
    # ``max_bytes`` of the helper is the partition's limit; the field is the request's.
    request = fetch_request({(topic, 0): 0, (topic, 1): 0})
    request.max_bytes = one * 4
    response = client.ask(request, 12)
    assert [len(p.records) for p in response.responses[0].partitions] == [one * 3, one]


def test_a_read_committed_consumer_sees_an_empty_list_of_aborted_transactions(client, topic):
    client.produce(topic, batch_of(b"a"))
    assert client.fetch(topic, isolation_level=1).aborted_transactions == []
    assert client.fetch(topic, isolation_level=0).aborted_transactions is None


def test_a_fetch_waits_for_records_and_no_longer_than_it_must(broker, client, topic):
    answered = []

    def wait() -> None:
        with Client(broker.bootstrap) as waiting:
            started = time.monotonic()
            found = waiting.fetch(topic, max_wait_ms=8000)
            answered.append((time.monotonic() - started, len(found.records)))

    thread = threading.Thread(target=wait)
    thread.start()
    while not broker._server.cluster.partition(topic, 0).waiters:
        time.sleep(0.01)
    client.produce(topic, batch_of(b"a"))
    thread.join(10)
    assert answered[0][0] < 5
    assert answered[0][1] > 0
    assert not broker._server.cluster.partition(topic, 0).waiters


def test_a_fetch_that_finds_nothing_ends_after_its_time(client, topic):
    started = time.monotonic()
    found = client.fetch(topic, max_wait_ms=200)
    assert 0.15 < time.monotonic() - started < 5
    assert (found.error_code, found.records) == (0, b"")


def test_min_bytes_are_waited_for(broker, client, topic):
    with Client(broker.bootstrap) as waiting:
        request = fetch_request({(topic, 0): 0, (topic, 1): 0}, min_bytes=2000, max_wait_ms=8000)
        waiting.send(request, 12)
        client.produce(topic, batch_of(b"x" * 1200), partition=0)
        assert not waiting.wire.is_closed_by_peer(0.3)
        client.produce(topic, batch_of(b"x" * 1200), partition=1)
        response = waiting.receive(request, 12, 5)
        assert all(len(p.records) > 1200 for p in response.responses[0].partitions)


def test_what_a_later_segment_holds_is_not_waited_for(client):
    client.create_topic("segmented", segment_bytes="1000")
    for _ in range(5):
        client.produce("segmented", batch_of(b"x" * 800))
    started = time.monotonic()
    found = client.fetch("segmented", min_bytes=100_000, max_wait_ms=5000)
    assert time.monotonic() - started < 3
    assert len(found.records) > 800


def test_a_large_answer_comes_in_parts_that_are_not_waited_for(client, topic, monkeypatch):
    monkeypatch.setattr(fetch_reading, "MOST_OF_A_PARTITION_BYTES", 300)
    for number in range(10):
        client.produce(topic, batch_of(b"%d" % number * 100))
    found = client.fetch(topic, max_bytes=1 << 20, min_bytes=1 << 19, max_wait_ms=30_000)
    assert 0 < len(found.records) <= 300
    assert client.values(topic) == [b"%d" % number * 100 for number in range(10)]


def test_a_waiting_fetch_learns_that_its_topic_is_gone(broker, client, topic):
    with Client(broker.bootstrap) as waiting:
        request = fetch_request({(topic, 0): 0}, max_wait_ms=8000)
        waiting.send(request, 12)
        while not broker._server.cluster.partition(topic, 0).waiters:
            time.sleep(0.01)
        broker.faults.recreate_topic(topic)
        response = waiting.receive(request, 12, 5)
        assert response.responses[0].partitions[0].records == b""


def test_a_client_that_leaves_is_not_waited_for(broker, topic):
    partition = broker._server.cluster.partition(topic, 0)
    with Client(broker.bootstrap) as waiting:
        waiting.send(fetch_request({(topic, 0): 0}, max_wait_ms=60_000), 12)
        deadline = time.monotonic() + 5
        while not partition.waiters and time.monotonic() < deadline:
            time.sleep(0.01)
    while partition.waiters and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not partition.waiters
