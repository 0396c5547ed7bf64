"""Batches that are false inside, or that unfold to far more than they are: refused, told, and nobody else notices."""

from __future__ import annotations

import threading
import time
import tracemalloc

import pytest

from seamark import Broker
from seamark.broker.api import produce_rules
from seamark.broker.api.handlers import produce as produce_handler
from seamark.broker.log.partition import Partition
from seamark.broker.sharing import turns
from seamark.storage.settings import LEAST_DECOMPRESSED_BYTES
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.delete_topics import DeleteTopicsRequest
from seamark.wire.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from seamark.wire.records import Record, encode_batch, read_header, read_records
from seamark.wire.records.compression import Codec
from seamark.wire.records.record_walk import MAX_HEADERS_OF_ONE_RECORD, MAX_RECORDS
from tests.support.broker_driver import Client, batch_of, fresh_name
from tests.support.hostile_batches import (
    NOW_MS,
    batch,
    compressed,
    gzip_members,
    header_bomb,
    misleading_bodies,
    mutated,
    record,
    record_bomb,
    records,
    unsound_bodies,
    value_bomb,
)
from tests.support.waiting import eventually


@pytest.fixture
def topic(broker):
    name = fresh_name()
    broker.create_topic(name)
    return name


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_that_no_consumer_could_read_are_not_stored(client, topic, codec):
    for name, body, count in (*unsound_bodies(), *misleading_bodies()):
        made = batch(body, count) if codec is Codec.NONE else compressed(codec, body, count)
        assert client.produce(topic, made).error_code != 0, name
    assert client.produce(topic, batch_of(b"good")).base_offset == 0


def test_what_is_taken_is_read_again_by_consumers(client, topic):
    """However it was changed: what a reader cannot read is refused."""
    offset = 0
    for seed in range(1000, 1250):
        answer = client.produce(topic, mutated(seed))
        if not answer.error_code:
            found = client.fetch(topic, answer.base_offset).records
            count = read_header(found).record_count
            read = read_records(found)
            assert [each.offset for each in read] == list(range(offset, offset + count))
            assert read_header(found).max_timestamp_ms == max(each.timestamp_ms for each in read)
            offset += count
    assert offset > 100


@pytest.mark.parametrize("claimed_ms", [2**62, NOW_MS + 50, 5, -1])
def test_a_false_largest_timestamp_is_set_right_and_times_are_found(client, topic, claimed_ms):
    body = record(0) + record(1, time_delta=20)
    assert client.produce(topic, batch(body, 2, max_ms=claimed_ms)).error_code == 0
    assert client.produce(topic, batch_of(b"later", timestamp_ms=NOW_MS + 100)).error_code == 0
    head = read_header(client.fetch(topic).records)
    assert head.max_timestamp_ms == NOW_MS + 20
    assert client.list_offset(topic, NOW_MS + 10).offset == 1
    assert client.list_offset(topic, NOW_MS + 50).offset == 2
    assert client.list_offset(topic, -3).offset == 2


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_more_headers_than_anybody_sends_are_refused_with_the_bound(client, policy):
    topic = fresh_name()
    client.create_topic(topic, cleanup_policy=policy)
    bomb = header_bomb(4_000_000)
    assert len(bomb) < 2000
    answer = client.produce(topic, bomb)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert f"{MAX_HEADERS_OF_ONE_RECORD} in a record" in answer.error_message
    assert client.produce(topic, header_bomb(1000)).error_code == 0


def test_more_records_than_anybody_sends_are_refused_with_the_bound(client, topic):
    body = bytes(8 * MAX_RECORDS)
    answer = client.produce(topic, compressed(Codec.ZSTD, body, MAX_RECORDS + 1))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert f"at most {MAX_RECORDS} are allowed" in answer.error_message


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_unfolds_to_more_than_the_bound_is_refused(client, topic, codec):
    bomb = value_bomb(LEAST_DECOMPRESSED_BYTES + 1, codec)
    assert len(bomb) < 1 << 20
    tracemalloc.start()
    answer = client.produce(topic, bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "decompress to" in answer.error_message
    assert str(LEAST_DECOMPRESSED_BYTES) in answer.error_message
    assert peak < 3 * LEAST_DECOMPRESSED_BYTES


def test_an_honest_megabyte_that_shrank_fiftyfold_is_taken(client, topic):
    line = b'{"level": "info", "service": "orders", "message": "nothing happened", "padding": "%s"}' % (b"." * 900)
    made = encode_batch([Record(n, NOW_MS + n, value=line) for n in range(20_000)], codec=Codec.ZSTD)
    assert client.produce(topic, made).base_offset == 0
    assert client.produce(topic, batch_of(b"next")).base_offset == 20_000


def test_streams_cut_into_more_parts_than_anybody_makes_are_refused(client, topic):
    assert client.produce(topic, gzip_members(30_000)).error_code != 0
    skippable = b"\x50\x2a\x4d\x18" + bytes(4)
    made = batch(skippable * 100_000, 3, attributes=int(Codec.ZSTD))
    assert client.produce(topic, made).error_code == ErrorCode.MESSAGE_TOO_LARGE
    framed = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2 + b"\x00\x00\x00\x01\x00" * 100_000
    made = batch(framed, 3, attributes=int(Codec.SNAPPY))
    assert client.produce(topic, made).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_thousand_bad_records_are_named_and_the_others_counted(client):
    topic = fresh_name()
    client.create_topic(topic, cleanup_policy="compact")
    answer = client.produce(topic, compressed(Codec.ZSTD, records(5000, key=None, value=b""), 5000))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == list(range(1000))
    assert "5,000 records" in answer.error_message


def many_bombs(topic: str, count: int) -> ProduceRequest:
    bomb = record_bomb(3000)
    parts = [ProduceRequestPartition(index=number, records=bomb) for number in range(count)]
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[ProduceRequestTopic(name=topic, partition_data=parts)]
    )


@pytest.fixture
def tiny_slices(monkeypatch):
    """A long request then takes thousands of turns of the loop, however fast the machine is."""
    monkeypatch.setattr(produce_rules, "_SLICE", 10)
    for name in ("FIRST_SECONDS", "TURN_SECONDS", "LONE_TURN_SECONDS"):
        monkeypatch.setattr(turns, name, 1e-9)


def test_others_are_served_while_a_long_request_waits_for_its_turns(broker, client, topic, tiny_slices, monkeypatch):
    client.create_topic(long := fresh_name(), partitions=40)
    appended = []
    append = Partition.append
    monkeypatch.setattr(
        Partition, "append", lambda self, *given: (appended.append(self.topic.name), append(self, *given))[1]
    )
    request = many_bombs(long, 40)
    with Client(broker.bootstrap) as hostile:
        hostile.send(request, 9)
        assert client.produce(topic, batch_of(b"in between")).base_offset == 0
        outcome = hostile.receive(request, 9).responses[0].partition_responses
    assert [(each.error_code, each.base_offset) for each in outcome] == [(0, 0)] * 40
    assert appended.count(long) == 40
    assert appended[-1] == long
    assert client.list_offset(long, -1, partition=39).offset == 3000


@pytest.fixture
def held_lane(broker, tiny_slices, monkeypatch):
    """Work on produced batches gets no turn until what is returned is called."""
    released = threading.Event()
    go_on = turns.Turns._go_on

    def hold(self, work):
        is_held = work.steps.__qualname__ == "_Producing.steps" and not released.is_set()
        (turns.Turns.stand_in_line if is_held else go_on)(self, work)

    monkeypatch.setattr(turns.Turns, "_go_on", hold)

    return released.set


def test_a_topic_that_is_deleted_while_its_batch_waits_takes_nothing(broker, client, held_lane):
    client.create_topic(name := fresh_name(), partitions=2)
    request = many_bombs(name, 2)
    with Client(broker.bootstrap) as hostile:
        hostile.send(request, 9)
        eventually(lambda: len(broker._server.turns) > 0, "the request waits in the lane")
        client.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=5000), 5)
        held_lane()
        codes = [each.error_code for each in hostile.receive(request, 9).responses[0].partition_responses]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_a_bug_in_the_lane_is_answered(broker, topic, tiny_slices, monkeypatch, caplog):
    monkeypatch.setattr(produce_handler._Producing, "_finished", lambda self: 1 // 0)
    with Client(broker.bootstrap) as hostile:
        answer = hostile.produce(topic, record_bomb(300))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "failed while it was processed in steps" in caplog.text


def test_the_broker_stops_while_requests_wait_in_the_lane(tiny_slices):
    with Broker() as broker, Client(broker.bootstrap) as hostile:
        broker.create_topic("long", partitions=40)
        hostile.send(many_bombs("long", 40), 9)
        broker.close()
        assert hostile.wire.is_closed_by_peer()


def test_what_others_wrote_behind_a_false_batch_outlives_a_restart(tmp_path):
    """A batch that says it has a billion records was stored once, and a restart cut the log there."""
    with Broker(data=str(tmp_path)) as broker, Client(broker.bootstrap) as client:
        broker.create_topic("orders")
        assert client.produce("orders", batch_of(b"first")).error_code == 0
        assert client.produce("orders", batch(bytes(9), 2**31 - 1)).error_code == ErrorCode.INVALID_RECORD
        assert client.produce("orders", batch_of(b"second")).base_offset == 1
    (tmp_path / "orders-0" / "clean_shutdown").unlink(missing_ok=True)
    with Broker(data=str(tmp_path)) as broker, Client(broker.bootstrap) as client:
        assert client.values("orders") == [b"first", b"second"]


def test_timestamps_out_of_range_are_named_in_a_long_batch(client):
    topic = fresh_name()
    client.create_topic(topic, message_timestamp_before_max_ms="3600000")
    now_ms = int(time.time() * 1000)
    body = b"".join(record(n, time_delta=-7_200_000 if n in (3, 250) else n % 5) for n in range(300))
    answer = client.produce(topic, batch(body, 300, base_ms=now_ms))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == [3, 250]
