"""Produce over real sockets: what is taken, what is refused, and with which error."""

import time

import pytest

from seamark import Broker
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.records import Record, encode_batch, read_header, read_records
from seamark.wire.records.compression import Codec
from tests.support.broker_driver import Client, batch_of, fresh_name, produce_request


@pytest.fixture
def topic(broker):
    name = fresh_name()
    broker.create_topic(name)
    return name


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("acks", [1, -1])
def test_records_come_back_as_they_were_produced(client, topic, version, acks):
    answer = client.produce(topic, batch_of(b"a", b"b"), acks=acks, version=version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 0, -1)
    assert client.produce(topic, batch_of(b"c"), acks=acks, version=version).base_offset == 2
    assert client.values(topic) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_that_are_advertised_for_old_clients_end_the_connection_when_used(client, topic, version):
    client.send(produce_request(topic, batch_of(b"a")), version)
    assert client.wire.is_closed_by_peer()


def test_without_acks_nothing_is_answered_and_the_next_request_is(client, topic):
    client.send(produce_request(topic, batch_of(b"a"), acks=0), 9)
    assert client.produce(topic, batch_of(b"b")).base_offset == 1


def test_an_error_without_acks_closes_the_connection(client):
    client.send(produce_request("missing", batch_of(b"a"), acks=0), 9)
    assert client.wire.is_closed_by_peer()


def test_acks_that_do_not_exist_are_refused(client, topic):
    assert client.produce(topic, batch_of(b"a"), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_unknown_topics_and_partitions_are_refused(client, topic):
    assert client.produce("missing", batch_of(b"a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce(topic, batch_of(b"a"), partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce(topic, batch_of(b"a"), partition=-1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _with_byte(batch, position, value):
    changed = bytearray(batch)
    changed[position] = value
    return bytes(changed)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch_of(b"a")[:40], ErrorCode.INVALID_RECORD),
        (batch_of(b"a")[:-1], ErrorCode.INVALID_RECORD),
        (batch_of(b"a") + batch_of(b"b"), ErrorCode.INVALID_RECORD),
        (_with_byte(batch_of(b"a"), -1, 99), ErrorCode.CORRUPT_MESSAGE),
        (_with_byte(batch_of(b"a"), 16, 1), ErrorCode.INVALID_RECORD),
        (_with_byte(batch_of(b"a"), 7, 5), ErrorCode.INVALID_RECORD),
        (encode_batch([Record(0, value=b"")], is_control=True), ErrorCode.INVALID_RECORD),
        (batch_of(b"a", is_transactional=True), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (batch_of(b"a", producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (encode_batch([Record(0), Record(2)]), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "null",
        "empty",
        "half a header",
        "cut off",
        "two batches",
        "wrong checksum",
        "old format",
        "base offset",
        "control",
        "transactional",
        "no sequence",
        "gap",
    ],
)
def test_a_batch_that_is_not_sound_is_refused_and_the_log_stays_as_it_was(client, topic, batch, code):
    assert client.produce(topic, batch).error_code == code
    assert client.produce(topic, batch_of(b"good")).base_offset == 0


def test_zstd_needs_a_client_that_may_use_it(client, topic):
    batch = batch_of(b"a" * 100, codec=Codec.ZSTD)
    assert client.produce(topic, batch, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.produce(topic, batch, version=7).error_code == 0
    assert client.values(topic) == [b"a" * 100]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_batches_pass_through_unchanged(client, topic, codec):
    batch = batch_of(b"x" * 500, b"y", codec=codec)
    client.produce(topic, batch)
    stored = client.fetch(topic).records
    assert bytes(stored)[17:] == batch[17:]


def test_a_batch_above_max_message_bytes_is_too_large(client):
    client.create_topic("small-messages", max_message_bytes="200")
    assert client.produce("small-messages", batch_of(b"x" * 300)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.produce("small-messages", batch_of(b"x" * 50)).error_code == 0


def test_a_batch_above_the_segment_size_is_refused(client):
    client.create_topic("small-segments", segment_bytes="200")
    assert client.produce("small-segments", batch_of(b"x" * 300)).error_code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_compacted_topic_names_the_records_without_key(client):
    client.create_topic("by-key", cleanup_policy="compact")
    batch = encode_batch([Record(0, 5, key=b"k", value=b"v"), Record(1, 5, value=b"v")])
    answer = client.produce("by-key", batch)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert "requires a key" in answer.record_errors[0].batch_index_error_message


def test_a_timestamp_too_far_ahead_is_refused(client, topic):
    far = int(time.time() * 1000) + 2 * 3_600_000
    answer = client.produce(topic, batch_of(b"a", timestamp_ms=far))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [0]


def test_a_timestamp_too_far_back_is_refused_where_that_is_configured(client):
    client.create_topic("recent", message_timestamp_before_max_ms="60000")
    assert client.produce("recent", batch_of(b"a", timestamp_ms=1000)).error_code == ErrorCode.INVALID_TIMESTAMP
    now = int(time.time() * 1000)
    assert client.produce("recent", batch_of(b"a", timestamp_ms=now)).error_code == 0


def test_log_append_time_stamps_batch_and_answer(client):
    client.create_topic("stamped", message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    answer = client.produce("stamped", batch_of(b"a"))
    assert before <= answer.log_append_time_ms <= before + 10_000
    stored = client.fetch("stamped").records
    header = read_header(stored)
    assert (header.timestamp_type, header.max_timestamp_ms) == (1, answer.log_append_time_ms)
    assert [record.timestamp_ms for record in read_records(stored)] == [answer.log_append_time_ms]


def test_clients_do_not_write_to_internal_topics(broker, client):
    broker._call(broker._server.cluster.create_offsets_topic)
    refused = client.produce("__consumer_offsets", batch_of(b"a"))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with Client(broker.bootstrap, client_id="__admin_client") as admin:
        assert admin.produce("__consumer_offsets", batch_of(b"a")).error_code == 0


def test_no_more_replicas_are_needed_than_there_are(client):
    client.create_topic("safe", min_insync_replicas="2")
    assert client.produce("safe", batch_of(b"a"), acks=-1).error_code == 0


def test_too_few_replicas_refuse_acks_all_only():
    with Broker(nodes=2) as broker:
        broker.create_topic("safe", config={"min.insync.replicas": 2}, replication_factor=2)
        broker.nodes[1].stop()
        with Client(broker.nodes[0].bootstrap) as client:
            assert client.produce("safe", batch_of(b"a"), acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            assert client.produce("safe", batch_of(b"a"), acks=1).error_code == 0


def test_a_producer_that_claims_the_brokers_time_is_not_believed(client, topic):
    assert client.produce(topic, batch_of(b"a", timestamp_type=1, max_timestamp_ms=1_700_000_000_000)).error_code == 0
    stored = client.fetch(topic).records
    assert read_header(stored).timestamp_type == 0
    assert [record.value for record in read_records(stored)] == [b"a"]


def test_a_batch_that_reached_its_log_is_refused_with_the_logs_start(client, topic):
    assert client.produce(topic, batch_of(b"a", producer_id=5, producer_epoch=0)).log_start_offset == 0
    assert client.produce(topic, b"nonsense").log_start_offset == -1


def test_a_transactional_producer_is_refused_at_once(client, topic):
    request = produce_request(topic, batch_of(b"a"))
    request.transactional_id = "tx"
    answer = client.ask(request).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# -- idempotent producers


def sequenced(value, sequence, *, epoch=0, producer_id=77):
    return batch_of(value, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_a_repeated_batch_is_answered_with_its_first_offset_and_stored_once(client, topic):
    assert client.produce(topic, sequenced(b"a", 0)).base_offset == 0
    assert client.produce(topic, sequenced(b"b", 1)).base_offset == 1
    for _ in range(2):
        again = client.produce(topic, sequenced(b"a", 0))
        assert (again.error_code, again.base_offset) == (0, 0)
    assert client.values(topic) == [b"a", b"b"]


def test_the_last_five_batches_are_remembered_and_older_ones_are_out_of_order(client, topic):
    for sequence in range(6):
        client.produce(topic, sequenced(b"x", sequence))
    assert client.produce(topic, sequenced(b"x", 1)).base_offset == 1
    assert client.produce(topic, sequenced(b"x", 0)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_refused(client, topic):
    client.produce(topic, sequenced(b"a", 0))
    assert client.produce(topic, sequenced(b"c", 2)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.produce(topic, sequenced(b"b", 1)).error_code == 0


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_with_zero(client, topic):
    client.produce(topic, sequenced(b"a", 0, epoch=3))
    assert client.produce(topic, sequenced(b"b", 1, epoch=2)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    refused = client.produce(topic, sequenced(b"b", 1, epoch=4))
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.produce(topic, sequenced(b"b", 0, epoch=4)).error_code == 0


def test_a_full_disk_is_a_storage_error_until_there_is_room(broker, client, topic):
    broker.faults.fill_disk()
    assert client.produce(topic, batch_of(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.faults.free_disk()
    assert client.produce(topic, batch_of(b"a")).base_offset == 0
