"""The login over a real connection, request by request: order, refusals, bare tokens, sessions with a limited life."""

from __future__ import annotations

import logging
import struct
import time

import pytest

from seamark.broker import Broker
from seamark.broker.security.gatekeeper import Gatekeeper
from seamark.broker.security.security import Security
from seamark.log_limits import LINES_OF_A_CAUSE
from seamark.wire.protocol.apis import api_named
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.frames import decode_response, encode_request
from seamark.wire.protocol.messages.metadata import MetadataRequestTopic
from tests.support.capture import CaptureError, Wire, framed

SECRET = "tr0ub4dor"
GOOD = b"\0alice\0" + SECRET.encode()
BAD = b"\0alice\0wrong"


class Client:
    def __init__(self, bootstrap):
        self.wire = Wire(bootstrap, timeout=5)

    def ask(self, name, version, **fields):
        api = api_named(name)
        frame = encode_request(api.request(**fields), version, 7, "tests")
        answer = self.wire.exchange(frame)
        return decode_response(api.response, answer[4:], version)[1]

    def handshake(self, mechanism="PLAIN", version=1):
        return self.ask("SaslHandshake", version, mechanism=mechanism)

    def authenticate(self, token=GOOD, version=2):
        return self.ask("SaslAuthenticate", version, auth_bytes=token)

    def log_in(self, token=GOOD):
        assert self.handshake().error_code == 0
        answer = self.authenticate(token)
        assert answer.error_code == 0, answer.error_message
        return answer

    def is_served(self):
        return self.ask("Metadata", 4, topics=[], allow_auto_topic_creation=False).brokers != []

    def is_closed(self):
        return self.wire.is_closed_by_peer(5)


@pytest.fixture(scope="module")
def broker():
    users = {"alice": SECRET, "bob": "b0b"}
    with Broker(security=Security(users=users, mechanisms=["PLAIN", "SCRAM-SHA-256"])) as running:
        yield running


@pytest.fixture
def client(broker):
    made = Client(broker.bootstrap)
    yield made
    made.wire.close()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_after_the_login_everything_is_served(client, version):
    client.ask("ApiVersions", 2)
    assert client.handshake().mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    answer = client.authenticate(version=version)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
    assert client.is_served()


@pytest.mark.parametrize("name", ["Metadata", "FindCoordinator", "SaslAuthenticate", "DescribeAcls"])
def test_before_the_login_other_requests_end_the_connection(client, name, caplog):
    caplog.set_level(logging.WARNING, "seamark")
    api = api_named(name)
    version = api.versions.first
    client.wire.send(encode_request(api.request(), version, 1, "tests"))
    assert client.is_closed()
    assert f"it sent {name} before it was authenticated" in caplog.text


def test_a_body_is_not_even_read_before_the_login(client, caplog):
    caplog.set_level(logging.WARNING, "seamark")
    client.wire.send(framed(struct.pack(">hhih", 3, 4, 1, -1) + b"\x7f" * 20))
    assert client.is_closed()
    assert "before it was authenticated" in caplog.text
    assert "cannot be read" not in caplog.text


def test_between_handshake_and_tokens_nothing_else_is_served(client):
    client.handshake()
    client.wire.send(encode_request(api_named("ApiVersions").request(), 0, 1, "tests"))
    assert client.is_closed()


def test_a_frame_of_a_stranger_is_limited_to_half_a_megabyte(client, caplog):
    caplog.set_level(logging.WARNING, "seamark")
    client.wire.send(struct.pack(">i", 600_000))
    assert client.is_closed()
    assert "a length of 600000 bytes" in caplog.text


def test_after_the_login_frames_may_be_large(client):
    client.log_in()
    asked = [MetadataRequestTopic(name=f"{number:05}{'x' * 244}") for number in range(3000)]
    answer = client.ask("Metadata", 4, topics=asked, allow_auto_topic_creation=False)
    assert len(answer.topics) == 3000


def test_a_wrong_password_is_answered_in_kafkas_words_a_moment_later_and_ends_the_connection(client, caplog):
    caplog.set_level(logging.WARNING, "seamark")
    client.handshake()
    began = time.monotonic()
    answer = client.authenticate(BAD)
    assert time.monotonic() - began >= 0.09
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert client.is_closed()
    assert caplog.text.count("failed to authenticate with PLAIN") == 1
    assert "wrong" not in caplog.text
    assert "alice" not in caplog.text


def test_a_wrong_proof_gives_nothing_away(client):
    client.handshake("SCRAM-SHA-256")
    first = client.authenticate(b"n,,n=nobody,r=abc")
    assert first.error_code == 0
    nonce = first.auth_bytes.split(b",")[0]
    answer = client.authenticate(b"c=biws," + nonce + b",p=" + b"A" * 43 + b"=")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )
    assert client.is_closed()


def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are(client):
    answer = client.handshake("SCRAM-SHA-512")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert client.is_closed()


def test_a_second_login_without_a_limited_session_is_refused_and_harmless(client):
    client.log_in()
    assert client.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    answer = client.authenticate()
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    assert client.is_served()


def test_bare_tokens_follow_a_handshake_of_version_0(client):
    assert client.handshake(version=0).error_code == 0
    client.wire.send(framed(GOOD))
    assert client.wire.receive() == framed(b"")
    assert client.is_served()


def test_a_wrong_bare_token_ends_the_connection_without_an_answer(client):
    client.handshake(version=0)
    client.wire.send(framed(BAD))
    with pytest.raises(CaptureError, match="closed"):
        client.wire.receive()


def test_a_wrong_bare_token_is_held_back_as_any_other_and_nothing_behind_it_is_looked_at(broker, client):
    client.handshake(version=0)
    before = broker._server.security.counts.failures
    began = time.monotonic()
    client.wire.send(framed(BAD) + framed(GOOD) + framed(BAD))
    assert client.is_closed()
    assert time.monotonic() - began >= 0.09
    assert broker._server.security.counts.failures == before + 1


def test_an_address_that_fails_again_and_again_waits_longer_each_time_and_others_do_not():
    gatekeeper = Gatekeeper(Security(users={"alice": SECRET}, failed_authentication_delay_ms=100))
    delays = [gatekeeper.delay_after_failure("10.0.0.1") for _ in range(17)]
    assert delays == pytest.approx([0.1] * 10 + [0.2, 0.4, 0.8, 1.6, 3.2, 3.2, 3.2])
    assert gatekeeper.delay_after_failure("10.0.0.2") == pytest.approx(0.1)


def test_the_right_password_is_never_held_back(broker, client, monkeypatch):
    held_back = []
    monkeypatch.setattr(broker._server.security, "delay_after_failure", lambda host: held_back.append(host) or 60.0)
    client.log_in()
    assert client.is_served()
    assert not held_back


def test_many_failed_logins_leave_a_few_lines_in_the_log(caplog):
    caplog.set_level(logging.WARNING, "seamark")
    security = Security(users={"alice": SECRET}, mechanisms=["PLAIN"], failed_authentication_delay_ms=0)
    with Broker(security=security) as broker:
        for _ in range(30):
            client = Client(broker.bootstrap)
            client.handshake()
            assert client.authenticate(BAD).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            client.wire.close()
        assert broker._server.security.counts.failures == 30
    lines = [line for line in caplog.messages if "failed to authenticate with PLAIN" in line]
    assert len(lines) == LINES_OF_A_CAUSE


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        (bytes.fromhex("16030100c8010000c40303") + bytes(200), "it started a TLS handshake on a port without TLS"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "it sent an HTTP request to a Kafka port"),
    ],
)
def test_a_client_at_the_wrong_port_is_named_in_the_log(client, first, sentence, caplog):
    caplog.set_level(logging.WARNING, "seamark")
    client.wire.send(first)
    assert client.is_closed()
    assert sentence in caplog.text


@pytest.mark.parametrize("tokens", [[b""], [b"n,,n=alice,r=x"] * 2, [b"c=biws,r=x,p=AAAA"], [b"n,,n=alice,r=x", b""]])
def test_tokens_in_another_order_end_the_login(client, tokens):
    client.handshake("SCRAM-SHA-256")
    *before, last = tokens
    for token in before:
        assert client.authenticate(token).error_code == 0
    assert client.authenticate(last).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed()


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [("PLAIN", GOOD + b"x" * 100_000), ("SCRAM-SHA-256", b"n,,n=alice,r=x" + b",a=b" * 100_000)],
)
def test_a_token_that_is_larger_than_any_password_is_not_looked_at(client, mechanism, token, caplog):
    caplog.set_level(logging.INFO, "seamark")
    client.handshake(mechanism)
    assert client.authenticate(token).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed()
    assert f"its token has {len(token)} bytes" in caplog.text


def test_requests_sent_behind_a_wrong_token_are_not_served(client):
    client.handshake()
    wrong = encode_request(api_named("SaslAuthenticate").request(auth_bytes=BAD), 2, 1, "tests")
    behind = encode_request(api_named("Metadata").request(topics=[]), 4, 2, "tests")
    client.wire.send(wrong + behind)
    client.wire.receive()
    assert client.is_closed()


def test_a_listener_without_sasl_has_no_such_conversation():
    with Broker() as broker:
        client = Client(broker.bootstrap)
        assert client.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.authenticate().error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.is_served()
        client.wire.close()


@pytest.fixture
def limited():
    settings = {"connections.max.reauth.ms": 60_000, "connection.failed.authentication.delay.ms": 0}
    security = Security(users={"alice": SECRET, "bob": "b0b"}, mechanisms=["PLAIN", "SCRAM-SHA-256"])
    with Broker(security=security, settings=settings) as running:
        client = Client(running.bootstrap)
        assert client.log_in().session_lifetime_ms == 60_000
        yield running, client
        client.wire.close()


def test_a_session_can_be_prolonged_on_its_connection(limited):
    broker, client = limited
    broker.advance(59)
    assert client.is_served()
    assert client.log_in().session_lifetime_ms == 60_000
    broker.advance(59)
    assert client.is_served()


def test_an_expired_session_may_only_log_in_again(limited, caplog):
    caplog.set_level(logging.INFO, "seamark")
    broker, client = limited
    broker.advance(61)
    client.log_in()
    assert client.is_served()
    broker.advance(61)
    client.wire.send(encode_request(api_named("Metadata").request(topics=[]), 4, 2, "tests"))
    assert client.is_closed()
    assert "after its session had expired" in caplog.text


def test_while_logging_in_again_nothing_else_is_served(limited):
    _, client = limited
    client.handshake()
    client.wire.send(encode_request(api_named("Metadata").request(topics=[]), 4, 2, "tests"))
    assert client.is_closed()


def test_the_user_may_not_change_on_a_connection(limited):
    _, client = limited
    client.handshake()
    answer = client.authenticate(b"\0bob\0b0b")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert client.is_closed()


def test_the_mechanism_may_not_change_on_a_connection(limited):
    _, client = limited
    assert client.handshake("SCRAM-SHA-256").error_code == 0
    with pytest.raises(CaptureError, match="closed"):
        client.authenticate(b"n,,n=alice,r=abc")


def test_logging_in_again_more_than_once_a_second_is_refused(limited):
    broker, client = limited
    client.log_in()
    assert client.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    broker.advance(2)
    client.log_in()


def test_a_failed_login_is_told_although_its_client_did_not_wait(caplog):
    caplog.set_level(logging.WARNING, "seamark.broker")
    security = Security(users={"alice": SECRET}, mechanisms=["PLAIN"], failed_authentication_delay_ms=50)
    with Broker(security=security) as broker:
        client = Client(broker.bootstrap)
        client.handshake()
        api = api_named("SaslAuthenticate")
        client.wire.send(encode_request(api.request(auth_bytes=BAD), 2, 7, "tests"))
        client.wire.close()
        deadline = time.monotonic() + 30
        while "it disconnected before the response" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "failed to authenticate with PLAIN" in caplog.text
    assert "it disconnected before the response" in caplog.text
