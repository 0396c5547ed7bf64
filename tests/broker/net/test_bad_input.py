"""What is not Kafka's protocol: an answer where there is one, else one log line and a closed connection."""

import contextlib
import logging
import random
import struct
import time

import pytest

from seamark import Broker
from seamark.broker.api.handlers import describe_cluster
from seamark.broker.net import connections as connections_module
from seamark.log_limits import LINES_OF_A_CAUSE
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.api_versions import ApiVersionsRequest
from seamark.wire.protocol.messages.describe_cluster import DescribeClusterRequest
from seamark.wire.protocol.messages.metadata import MetadataRequest
from seamark.wire.schema.primitives import encode_unsigned_varint
from tests.support.broker_driver import Client, batch_of, fetch_request, fresh_name, produce_request
from tests.support.capture import CaptureError, Wire, framed
from tests.support.waiting import eventually

TLS_HELLO = bytes.fromhex("160301020001000001fc0303") + bytes(100)


@pytest.fixture(scope="module")
def broker():
    with Broker(settings={"socket.request.max.bytes": 1_000_000}) as running:
        yield running


@pytest.fixture
def client(broker):
    with Client(broker.bootstrap) as connected:
        yield connected


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "sent an HTTP request"),
        (TLS_HELLO, "started a TLS handshake"),
        (struct.pack(">i", 2**31 - 1) + b"x", "a length of 2147483647 bytes"),
        (struct.pack(">i", -5), "a length of -5 bytes"),
        (struct.pack(">i", 1_000_001), "a length of 1000001 bytes"),
        (framed(b""), "shorter than a request header"),
        (framed(b"\0\x03\0\0\0\0"), "shorter than a request header"),
        (framed(struct.pack(">hhih", 999, 0, 1, -1)), "API key 999"),
        (framed(struct.pack(">hhih", 7, 0, 1, -1)), "API key 7"),
        (framed(struct.pack(">hhih", -3, 0, 1, -1)), "API key -3"),
        (framed(struct.pack(">hhih", 3, 99, 1, -1)), "Metadata version 99"),
        (framed(struct.pack(">hhih", 3, -1, 1, -1)), "Metadata version -1"),
        (framed(struct.pack(">hhih", 3, 1, 1, 500)), "cannot be decoded"),
        (framed(struct.pack(">hhihi", 3, 1, 1, -1, 2**31 - 1)), "cannot be decoded"),
        (framed(struct.pack(">hhihB", 3, 12, 1, -1, 200)), "cannot be decoded"),
    ],
)
def test_a_connection_that_speaks_something_else_is_closed_with_one_line(client, caplog, raw, said):
    caplog.set_level(logging.WARNING, "seamark.broker")
    client.wire.send(raw)
    assert client.wire.is_closed_by_peer()
    lines = [record.getMessage() for record in caplog.records if "closed connection" in record.getMessage()]
    assert len(lines) == 1
    assert said in lines[0]


def test_bytes_behind_a_request_are_ignored_as_kafka_does(client):
    client.wire.send(framed(struct.pack(">hhihi", 3, 1, 1, -1, -1) + b"more"))
    assert client.decode(MetadataRequest(), 1, client.wire.receive()).controller_id == 0


def test_half_a_frame_keeps_nobody_waiting(broker, client):
    frame = client.frame(MetadataRequest(topics=None), 1)
    client.wire.send(frame[:7])
    with Client(broker.bootstrap) as other:
        assert other.metadata().controller_id == 0
    client.wire.send(frame[7:])
    assert client.decode(MetadataRequest(), 1, client.wire.receive()).controller_id == 0


def test_a_frame_that_comes_byte_by_byte_is_read(client):
    frame = client.frame(MetadataRequest(topics=None), 12)
    for byte in frame:
        client.wire.send(bytes([byte]))
    assert client.decode(MetadataRequest(), 12, client.wire.receive()).controller_id == 0


@pytest.mark.parametrize("version", [5, 99, -1])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(client, version):
    answer = client.wire.exchange(framed(struct.pack(">hhih", 18, version, 7, -1) + b"\1\1\1\1"))
    response = client.decode(ApiVersionsRequest(), 0, answer)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]
    # The connection is as good as before.
    assert client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1")).error_code == 0


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1")])
def test_a_client_that_calls_itself_something_odd_is_told(client, name, version):
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert client.ask(request, 3).error_code == ErrorCode.INVALID_REQUEST


def test_every_version_of_api_versions_lists_what_is_served(client):
    for version in range(5):
        request = ApiVersionsRequest()
        if version >= 3:
            request = ApiVersionsRequest(client_software_name="tests", client_software_version="1.0")
        served = {api.api_key: (api.min_version, api.max_version) for api in client.ask(request, version).api_keys}
        assert served[0] == (0, 12)
        assert served[1] == (4, 17)
        assert 7 not in served
        assert list(served) == sorted(served)


def test_answers_come_in_the_order_of_the_requests(broker, client):
    name = fresh_name()
    broker.create_topic(name)
    waiting = fetch_request({(name, 0): 0}, max_wait_ms=300)
    client.send(waiting, 12)
    client.send(MetadataRequest(topics=None), 1)
    client.receive(waiting, 12)
    assert client.receive(MetadataRequest(), 1).controller_id == 0


def test_a_client_that_never_reads_is_not_served_without_end_and_goes_at_last(broker, caplog, monkeypatch):
    caplog.set_level(logging.WARNING, "seamark.broker")
    name = fresh_name()
    broker.create_topic(name)
    with Client(broker.bootstrap) as writer:
        for _ in range(20):
            writer.produce(name, batch_of(b"x" * 400_000))
    connections = broker._server.nodes[0].connections
    with Client(broker.bootstrap) as lazy:
        request = fetch_request({(name, 0): 0}, max_bytes=8 << 20)
        request.max_bytes = 8 << 20
        frame = lazy.frame(request, 12)
        with contextlib.suppress(CaptureError):
            lazy.wire.timeout = 1.0
            for _ in range(50):
                lazy.wire.send(frame)
        deadline = time.monotonic() + 5
        while not any(c.stalled_since is not None for c in list(connections._open)) and time.monotonic() < deadline:
            time.sleep(0.02)
        with Client(broker.bootstrap) as other:
            assert other.metadata().controller_id == 0
        monkeypatch.setattr(connections_module, "STANDSTILL_SECONDS", 0.01)
        time.sleep(0.05)
        broker.advance(10)
        assert "did not read its responses" in caplog.text
        assert not any(c.stalled_since is not None for c in list(connections._open))


def test_an_idle_connection_is_closed():
    with Broker(settings={"connections.max.idle.ms": 400}) as broker, Client(broker.bootstrap) as client:
        client.metadata()
        # The time that a test adds is not the client's.
        broker.advance(3600)
        client.metadata()
        time.sleep(0.5)
        broker.advance(10)
        assert client.wire.is_closed_by_peer()


def test_one_connection_too_many_is_closed():
    with Broker(settings={"max.connections": 2}) as broker:
        with Client(broker.bootstrap) as first, Client(broker.bootstrap) as second:
            assert first.metadata().controller_id == second.metadata().controller_id == 0
            with Client(broker.bootstrap) as third:
                assert third.wire.is_closed_by_peer()
        deadline = time.monotonic() + 5
        while len(broker._server.nodes[0].connections) and time.monotonic() < deadline:
            time.sleep(0.01)
        with Client(broker.bootstrap) as again:
            assert again.metadata().controller_id == 0


def test_one_connection_too_many_from_an_address_is_closed():
    with (
        Broker(settings={"max.connections.per.ip": 1}) as broker,
        Client(broker.bootstrap) as first,
        Client(broker.bootstrap) as second,
    ):
        assert first.metadata().controller_id == 0
        assert second.wire.is_closed_by_peer()


def test_mutated_requests_never_keep_the_broker_from_serving(broker, caplog):
    chance = random.Random(5)
    name = fresh_name()
    broker.create_topic(name)
    with Client(broker.bootstrap) as maker:
        seeds = [
            maker.frame(produce_request(name, batch_of(b"a", b"b")), 9),
            maker.frame(fetch_request({(name, 0): 0}), 12),
            maker.frame(MetadataRequest(topics=None), 12),
        ]
    caplog.set_level(logging.ERROR, "seamark.broker")
    for _ in range(300):
        frame = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            frame[chance.randrange(4, len(frame))] = chance.randrange(256)
        # It may be cut off while it talks, but never kept out.
        with Client(broker.bootstrap, timeout=30) as hostile, contextlib.suppress(CaptureError):
            hostile.wire.send(bytes(frame))
            hostile.wire.is_closed_by_peer(0.005)
    with Client(broker.bootstrap) as client:
        assert client.metadata().controller_id == 0
        assert client.produce(name, batch_of(b"good")).error_code == 0
    assert not [record for record in caplog.records if record.exc_info], caplog.text


def test_half_a_frame_that_does_not_go_on_is_given_up(broker, client, monkeypatch, caplog):
    caplog.set_level(logging.WARNING, "seamark.broker")
    monkeypatch.setattr(connections_module, "STANDSTILL_SECONDS", 10.0)
    client.wire.send(struct.pack(">i", 500_000) + bytes(1000))
    time.sleep(0.1)
    for _ in range(4):
        broker.advance(6)
    assert client.wire.is_closed_by_peer()
    assert "stopped sending after 1004 bytes of a request" in caplog.text


def test_unfinished_requests_are_bounded_in_sum(caplog):
    caplog.set_level(logging.WARNING, "seamark.broker")
    with Broker(settings={"queued.max.request.bytes": 1_000_000}) as broker:
        clients = [Client(broker.bootstrap) for _ in range(5)]
        for client in clients:
            with contextlib.suppress(CaptureError):
                client.wire.send(struct.pack(">i", 50_000_000) + bytes(300_000))
        deadline = time.monotonic() + 5
        while (
            "bytes of unfinished requests when those of all clients reached" not in caplog.text
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        connections = broker._server.nodes[0].connections
        assert broker._call(lambda: connections._held.total) <= 1_000_000
        with Client(broker.bootstrap) as other:
            assert other.metadata().controller_id == 0
        for client in clients:
            client.close()


def test_answers_that_nobody_reads_are_bounded_in_sum(monkeypatch, caplog):
    caplog.set_level(logging.WARNING, "seamark.broker")
    monkeypatch.setattr(connections_module, "MAX_UNREAD_BYTES", 12 << 20)
    # Each client gets one batch, which is far more than there is room for and more than its system takes.
    with Broker(settings={"fetch.max.bytes": 1 << 20}) as broker:
        broker.create_topic("t", config={"max.message.bytes": 10 << 20})
        with Client(broker.bootstrap) as writer:
            assert writer.produce("t", batch_of(b"x" * (9 << 20))).error_code == 0
        connections = broker._server.nodes[0].connections
        with contextlib.ExitStack() as stack:
            for client in [stack.enter_context(Client(broker.bootstrap)) for _ in range(6)]:
                client.send(fetch_request({("t", 0): 0}), 12)
            eventually(lambda: "and neither did other clients" in caplog.text, "one that does not read is closed")
            assert broker._call(lambda: sum(connections._unread.values())) <= 12 << 20
            with Client(broker.bootstrap) as other:
                assert other.metadata().controller_id == 0


def test_what_goes_wrong_in_the_broker_by_a_request_is_told_a_few_times(broker, client, monkeypatch, caplog):
    def fail(*_arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(describe_cluster, "handle", fail)
    for _ in range(30):
        assert client.ask(DescribeClusterRequest(endpoint_type=1)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    told = [record for record in caplog.records if record.exc_info]
    assert len(told) == LINES_OF_A_CAUSE
    assert {record.levelno for record in told} == {logging.ERROR}


def test_ordinary_ends_of_connections_are_no_warnings(caplog, monkeypatch):
    monkeypatch.setattr(connections_module, "_SWEEP_SECONDS", 0.1)
    caplog.set_level(logging.INFO, "seamark")
    with Broker(settings={"connections.max.idle.ms": 100}) as broker, Client(broker.bootstrap) as client:
        client.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"))
        eventually(lambda: "was idle for" in caplog.text, "the connection is closed")
        with Client(broker.bootstrap) as gone:
            gone.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_tagged_fields_in_the_header_are_bounded(broker, caplog):
    caplog.set_level(logging.WARNING, "seamark.broker")
    tags = b"".join(encode_unsigned_varint(number) + b"\0" for number in range(101))
    head = struct.pack(">hhih", 18, 3, 1, 0) + encode_unsigned_varint(101) + tags
    body = b"\x02x\x02y\0"
    with Wire(broker.bootstrap) as hostile:
        hostile.send(struct.pack(">i", len(head + body)) + head + body)
        assert hostile.is_closed_by_peer()
    assert "which cannot be decoded" in caplog.text
