"""kafka-python and aiokafka against a broker with TLS, client certificates, PLAIN and SCRAM."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.acls import Acl
from seamark.broker import Broker
from seamark.broker.event_loop import new_event_loop
from seamark.broker.security.security import Security, Tls
from seamark.wire.protocol.frames import encode_request
from seamark.wire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from seamark.wire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.capture import Wire
from tests.support.certificates import Authority

kafka = pytest.importorskip("kafka")
aiokafka = pytest.importorskip("aiokafka")

# Clients that are refused leave sockets to the garbage collector; what they leak is theirs.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

USERS = {"alice": "tr0ub4dor", "bob": "b0b"}
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server_certificate(authority):
    return authority.sign("/CN=broker")


@pytest.fixture(scope="module")
def client_certificate(authority):
    return authority.sign("/O=Seamark/CN=alice")


@pytest.fixture(scope="module")
def tls(server_certificate):
    return Tls(server_certificate.certificate, server_certificate.key)


def trusting(authority, certificate=None):
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context


def ask_over_tls(bootstrap, context):
    """Shake hands and ask for ApiVersions; with TLS 1.3 a client learns of a refusal only when it next reads."""
    host, port = bootstrap.split(":")
    with (
        socket.create_connection((host, int(port)), 5) as raw,
        context.wrap_socket(raw, server_hostname=host) as wrapped,
    ):
        wrapped.sendall(API_VERSIONS)
        answer = wrapped.recv(8)
        if not answer:
            raise ConnectionError("the broker closed the connection")
        return answer


def wait_for_line(caplog, text):
    deadline = time.monotonic() + 5
    while text not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)


def round_trip_with_kafka_python(bootstrap, topic, **options):
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, **options)
    try:
        sent = producer.send(topic, b"value", key=b"key").get(timeout=10)
    finally:
        producer.close()
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=f"group-of-{topic}", auto_offset_reset="earliest", **options
    )
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                consumer.commit()
                assert records[0].offset == sent.offset
                return records[0].value
    finally:
        consumer.close()
    raise AssertionError("no record came")


async def round_trip_with_aiokafka(bootstrap, topic, **options):
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
        await producer.send_and_wait(topic, b"value")
    consumer = aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=f"group-of-{topic}", auto_offset_reset="earliest", **options
    )
    async with consumer:
        record = await asyncio.wait_for(consumer.getone(), 20)
        await consumer.commit()
        return record.value


@pytest.fixture(scope="module")
def sasl_broker():
    with Broker(security=Security(users=USERS), settings={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in(sasl_broker, mechanism):
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": "tr0ub4dor",
    }
    assert round_trip_with_kafka_python(sasl_broker.bootstrap, f"python-{mechanism}", **options) == b"value"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in(sasl_broker, mechanism):
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "bob",
        "sasl_plain_password": "b0b",
    }
    topic = f"aio-{mechanism}"
    sasl_broker.create_topic(topic)
    assert asyncio.run(round_trip_with_aiokafka(sasl_broker.bootstrap, topic, **options)) == b"value"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_reaches_the_client_as_an_authentication_failure(sasl_broker, mechanism):
    async def connect():
        client = aiokafka.AIOKafkaProducer(
            bootstrap_servers=sasl_broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="wrong",
        )
        try:
            await client.start()
        finally:
            await client.stop()

    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(connect())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_talk_over_tls(tls, authority, version):
    with Broker(security=Security(tls=tls), settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        context = trusting(authority)
        context.minimum_version = context.maximum_version = version
        options = {"security_protocol": "SSL", "ssl_context": context}
        assert round_trip_with_kafka_python(broker.bootstrap, "over-tls", **options) == b"value"
        broker.create_topic("over-tls-too")
        assert asyncio.run(round_trip_with_aiokafka(broker.bootstrap, "over-tls-too", **options)) == b"value"


def test_a_client_certificate_is_the_principal(tls, authority, client_certificate, server_certificate):
    mutual = Tls(server_certificate.both, client_ca=authority.certificate)
    alice = "User:CN=alice,O=Seamark"
    acls = [Acl(alice, "ALL", "TOPIC"), Acl(alice, "ALL", "GROUP"), Acl(alice, "CREATE", "CLUSTER", "kafka-cluster")]
    security = Security(tls=mutual, acls=acls)
    with Broker(security=security, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        context = trusting(authority, client_certificate)
        options = {"security_protocol": "SSL", "ssl_context": context}
        broker.create_topic("mutual")
        assert asyncio.run(round_trip_with_aiokafka(broker.bootstrap, "mutual", **options)) == b"value"


def test_without_a_certificate_that_is_required_nobody_gets_in(authority, server_certificate, caplog):
    caplog.set_level(logging.INFO, "seamark")
    mutual = Tls(server_certificate.both, client_ca=authority.certificate)
    with Broker(security=Security(tls=mutual)) as broker:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask_over_tls(broker.bootstrap, trusting(authority))
        wait_for_line(caplog, "did not complete the TLS handshake")
        assert caplog.text.count("did not complete the TLS handshake") == 1


def test_sasl_over_tls(tls, authority):
    security = Security(tls=tls, users=USERS)
    with Broker(security=security, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        options = {
            "security_protocol": "SASL_SSL",
            "ssl_context": trusting(authority),
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "tr0ub4dor",
        }
        assert round_trip_with_kafka_python(broker.bootstrap, "sasl-over-tls", **options) == b"value"


def test_who_logs_in_is_the_principal_and_not_the_certificate_which_is_still_needed(
    authority, server_certificate, client_certificate
):
    mutual = Tls(server_certificate.both, client_ca=authority.certificate)
    security = Security(tls=mutual, users=USERS, mechanisms=["PLAIN"], super_users=["User:CN=alice,O=Seamark"])
    handshake = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "tests")
    login = encode_request(SaslAuthenticateRequest(auth_bytes=b"\0bob\0b0b"), 1, 2, "tests")
    with Broker(security=security) as broker:
        host, port = broker.bootstrap.split(":")
        context = trusting(authority, client_certificate)
        context.check_hostname = False
        with socket.create_connection((host, int(port)), 10) as raw, context.wrap_socket(raw) as client:
            for frame in (handshake, login):
                client.sendall(frame)
                assert client.recv(4096)
            (connection,) = broker._server.nodes[0].connections._open
            assert connection.session.principal == "User:bob"
            assert not connection.session.is_unrestricted
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask_over_tls(broker.bootstrap, trusting(authority))


def test_large_answers_pass_through_tls(tls, authority):
    # Larger than a send buffer and than a TLS record, so that they are cut in pieces.
    with Broker(security=Security(tls=tls), settings={"message.max.bytes": 6_000_000}) as broker:
        broker.create_topic("large")
        options = {
            "bootstrap_servers": broker.bootstrap,
            "security_protocol": "SSL",
            "ssl_context": trusting(authority),
        }

        async def story():
            value = bytes(range(256)) * 16_000
            async with aiokafka.AIOKafkaProducer(max_request_size=6_000_000, **options) as producer:
                await producer.send_and_wait("large", value)
            consumer = aiokafka.AIOKafkaConsumer(
                "large", auto_offset_reset="earliest", max_partition_fetch_bytes=6_000_000, **options
            )
            async with consumer:
                return (await asyncio.wait_for(consumer.getone(), 20)).value == value

        assert asyncio.run(story())


def test_plain_bytes_on_a_tls_port_close_with_one_line(tls, caplog):
    caplog.set_level(logging.INFO, "seamark")
    with Broker(security=Security(tls=tls)) as broker, Wire(broker.bootstrap) as wire:
        wire.send(API_VERSIONS)
        wait_for_line(caplog, "TLS handshake")
        assert caplog.text.count("did not complete the TLS handshake: what it sent is not TLS") == 1
        assert caplog.text.count("closed connection") == 1


def test_tls_on_a_plain_port_closes_with_one_line(authority, caplog):
    caplog.set_level(logging.INFO, "seamark")
    with Broker() as broker:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask_over_tls(broker.bootstrap, trusting(authority))
        assert caplog.text.count("began a TLS handshake on a port without TLS") == 1


def test_connections_that_never_shake_hands_count_as_connections(tls, authority):
    settings = {"max.connections.per.ip": 3}
    with Broker(security=Security(tls=tls), settings=settings) as broker:
        silent = [Wire(broker.bootstrap) for _ in range(3)]
        wait_for_connections(broker, 3)
        with Wire(broker.bootstrap) as fourth:
            assert fourth.is_closed_by_peer(5)
        silent.pop().close()
        wait_for_connections(broker, 2)
        assert ask_over_tls(broker.bootstrap, trusting(authority))[4:8] == b"\0\0\0\1"
        for wire in silent:
            wire.close()


def test_a_handshake_that_takes_too_long_is_given_up(tls, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "seamark")
    monkeypatch.setattr("seamark.broker.net.tls_gate.HANDSHAKE_SECONDS", 0.2)
    with Broker(security=Security(tls=tls)) as broker, Wire(broker.bootstrap) as wire:
        assert wire.is_closed_by_peer(5)
        wait_for_connections(broker, 0)
        assert caplog.text.count("did not complete the TLS handshake") == 1


def wait_for_connections(broker, count):
    node = broker._server.nodes[0]
    deadline = time.monotonic() + 5
    while len(node.connections) != count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("make_loop", [new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def test_no_hello_and_no_first_request_gets_lost_in_a_crowd(tls, authority, monkeypatch, make_loop):
    # Clients that speak before TLS listens, or with the last message of the handshake.
    monkeypatch.setattr("seamark.broker.embedded.new_event_loop", make_loop)
    with Broker(security=Security(tls=tls)) as broker:
        context = trusting(authority)

        def connect(_):
            return all(ask_over_tls(broker.bootstrap, context)[4:8] == b"\0\0\0\1" for _ in range(20))

        with ThreadPoolExecutor(8) as crowd:
            assert all(crowd.map(connect, range(8)))
        wait_for_connections(broker, 0)
